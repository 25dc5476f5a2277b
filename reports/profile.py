"""What a measured profile is of, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from autotune.measurements.model_profile import ModelProfile
from autotune.measurements.node_profile import NodeProfile
from autotune.measurements.validity import describe_kind


def describe_model_profile(profile: ModelProfile) -> tuple[str, ...]:
    """What the profile is of: model, device and request in the first sentence, how it was made in the others."""
    facts = profile.facts
    variant = f", variant {facts.variant}" if facts.variant else ""
    has_others = any(use.component not in profile.components for use in facts.request.uses)
    others = "; compute of other components is estimated" if has_others else ""
    return (
        f"Measured times of {facts.model.name}{variant} on {describe_kind(profile.kind)}: {facts.workload.describe()}.",
        f"Oldest timing {_describe_time(profile.measured_at)}; {profile.effort} effort, {profile.options.describe()}"
        f"{_list_versions(profile.versions)}.",
        f"Profiled: {', '.join(profile.components)}{others}.",
    )


def describe_node_profile(profile: NodeProfile) -> tuple[str, ...]:
    """Which machine and device it is of, and how it was made."""
    node = profile.node
    card = f", {node.device_uuid}" if node.device_uuid else ""
    processor = "" if node.kind.title == node.cpu else f"{node.cpu}, "
    return (
        f"Measured links and budgets of {node.device} ({node.kind.title}{card}) in the machine {node.machine} "
        f"({processor}kernel {node.kernel}).",
        f"Oldest timing {_describe_time(profile.measured_at)}; {profile.effort} effort"
        f"{_list_versions(profile.versions)}.",
    )


def _list_versions(versions: Mapping[str, str]) -> str:
    return "".join(f", {name} {version}" for name, version in sorted(versions.items()))


def _describe_time(measured_at: str) -> str:
    """``2026-11-30 03:18 UTC``; what is no time is repeated as it is."""
    try:
        then = datetime.fromisoformat(measured_at)
    except ValueError:
        return repr(measured_at)
    return f"{(then if then.tzinfo else then.replace(tzinfo=UTC)).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
