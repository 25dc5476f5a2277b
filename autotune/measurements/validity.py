"""Whether a profile says anything about this machine, model and day, and if not, every reason. Pure.

The one rule of scaling: times of a model that were measured on another machine hold here if its device is of the same
kind, and are combined with this machine's own links. Links of another machine are never used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from autotune.measurements.model_profile import DeviceKind, ModelProfile, RunOptions
from autotune.measurements.node_profile import NodeFingerprint, NodeProfile
from autotune.measurements.records import Record
from autotune.workload import Workload
from runtime.errors import ProfileError
from runtime.units import format_gib, format_size

MAX_AGE_DAYS = 30
"""Older profiles are not used: drivers, slots, neighbours and cooling change without a trace."""

_MOST_NAMES = 5
# NVML and the CUDA runtime differ by 2 % in what they call all of a card's memory (RTX 4090: 24,564 and 24,080 MiB);
# variants of a card that share a title differ by more (RTX 3080 of 10 and of 12 GB: by a sixth).
_SAME_MEMORY_RATIO = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What speaks against a profile, and what limits it; one sentence each."""

    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWish:
    """What a model profile is wanted for; None, or no version, where it does not matter.

    Attributes:
        model, workload, variant: what is planned; the variant is empty for the model as released.
        kind: of the device.
        versions: of the software that runs now.
        options: how layers shall have been run.
        facts_key: of the facts as they would be read now.
    """

    model: str | None = None
    workload: Workload | None = None
    variant: str | None = None
    kind: DeviceKind | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    options: RunOptions | None = None
    facts_key: str | None = None


def judge_model_profile(profile: ModelProfile, wish: ModelWish, now: datetime) -> Verdict:
    """Whether ``profile`` answers ``wish`` at ``now``."""
    facts = profile.facts
    reasons = []
    if wish.model is not None and facts.model.name != wish.model:
        reasons.append(f"it is of the model {facts.model.name}, not of {wish.model}")
    if wish.variant is not None and facts.variant != wish.variant:
        reasons.append(f"it is of {_call_variant(facts.variant)}, not of {_call_variant(wish.variant)}")
    if wish.workload is not None and facts.workload != wish.workload:
        reasons.append(f"it is of another request: {facts.workload.describe()}, not {wish.workload.describe()}")
    if wish.kind is not None and not is_same_kind(profile.kind, wish.kind):
        reasons.append(f"it was measured on {describe_kind(profile.kind)}, this is {describe_kind(wish.kind)}")
    if wish.options is not None and profile.options != wish.options:
        reasons.append(f"it was made with {profile.options.describe()}, not with {wish.options.describe()}")
    reasons += list_changed_versions(profile.versions, wish.versions)
    if wish.facts_key is not None and profile.facts_key != wish.facts_key:
        reasons.append("the model's classes, its configurations or how they are read changed since it was measured")
    reasons += _judge_age(profile.measured_at, now)
    records = [piece.record for piece in profile.pieces]
    names = [f"{record.component} {record.name}" for record in records if record.disturbances]
    warnings = [f"Timings of {_enumerate(names)} were disturbed while they were measured"] if names else []
    for outcome, what in (("out_of_memory", "ran out of device memory"), ("failed", "failed"), ("skipped", "left out")):
        names = [f"{record.component} {record.name}" for record in records if record.outcome == outcome]
        if names:
            warnings.append(f"{_enumerate(names)} {what} while the model was profiled: estimated instead")
    return Verdict(reasons=tuple(reasons), warnings=tuple(warnings))


def judge_node_profile(
    profile: NodeProfile,
    here: NodeFingerprint | None,
    versions: Mapping[str, str],
    now: datetime,
) -> Verdict:
    """Whether ``profile`` describes ``here`` at ``now``.

    Args:
        profile: what is judged.
        here: this machine with its device; None where only the age matters.
        versions: of the software that runs now.
        now: the time.
    """
    node, reasons = profile.node, []
    if here is not None:
        if node.machine != here.machine:
            reasons.append("it was measured on another machine, whose links say nothing about this one's")
        if node.device_uuid and here.device_uuid and node.device_uuid != here.device_uuid:
            reasons.append(f"it is of the card {node.device_uuid}, not of {here.device_uuid}")
        elif not is_same_kind(node.kind, here.kind):
            reasons.append(f"it is of {describe_kind(node.kind)}, this is {describe_kind(here.kind)}")
        if node.machine == here.machine and node.kernel != here.kernel:
            reasons.append(f"the system's kernel changed from {node.kernel} to {here.kernel}")
    reasons += list_changed_versions(profile.versions, versions)
    reasons += _judge_age(profile.measured_at, now)
    names = [f"{link.kind} of {format_size(link.size_bytes)}" for link in profile.links if link.disturbances]
    names += [f"interference with {record.load}" for record in profile.interference if record.disturbances]
    warnings = [f"Timings of {_enumerate(names)} were disturbed while they were measured"] if names else []
    return Verdict(reasons=tuple(reasons), warnings=tuple(warnings))


def refuse_invalid(name: str, verdict: Verdict, remedy: str) -> None:
    """Nothing, if ``verdict`` is valid.

    Raises:
        ProfileError: it is not; the message has every reason and the remedy.
    """
    if not verdict.is_valid:
        raise ProfileError(f"{name} cannot be used: {'; '.join(verdict.reasons)}. {remedy}")


def is_same_kind(one: DeviceKind, other: DeviceKind) -> bool:
    """Whether a model takes the same time on both; capabilities count only where both are known."""
    if (one.backend, one.title) != (other.backend, other.title):
        return False
    if one.capability and other.capability and one.capability != other.capability:
        return False
    return have_same_memory(one.memory_bytes, other.memory_bytes)


def have_same_memory(one_bytes: int, other_bytes: int) -> bool:
    """Whether two totals of device memory may be one card's, read in two ways."""
    return abs(one_bytes - other_bytes) <= _SAME_MEMORY_RATIO * max(one_bytes, other_bytes)


def describe_kind(kind: DeviceKind) -> str:
    """The kind of device in a few words."""
    memory = f" with {format_gib(kind.memory_bytes, 1)}" if kind.memory_bytes else ""
    return f"{kind.title}{memory}" if kind.backend == "cuda" else f"{kind.title}{memory} ({kind.backend})"


def list_changed_versions(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Software of which both versions are known and differ, one sentence each."""
    return [
        f"{name} changed from {before[name]} to {now[name]}"
        for name in sorted(set(before) & set(now))
        if before[name] != now[name]
    ]


def compute_age_days(measured_at: str, now: datetime) -> float | None:
    """Days from ``measured_at`` to ``now``; None where that is no time."""
    try:
        then = datetime.fromisoformat(measured_at)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return (now - then).total_seconds() / 86_400


def is_recent(measured_at: str, now: datetime) -> bool:
    """Whether what was measured then may still be used."""
    age_days = compute_age_days(measured_at, now)
    return age_days is not None and age_days <= MAX_AGE_DAYS


def find_oldest(records: Iterable[Record], now: datetime) -> str:
    """When the oldest of ``records`` was measured, ISO 8601; ``now`` where none was."""
    return min(
        (record.measured_at for record in records if record.measured_at), default=now.isoformat(timespec="seconds")
    )


def describe_age(measured_at: str, now: datetime) -> str:
    """``2026-11-30, today`` or ``2026-11-27, 3 days ago``."""
    age_days = compute_age_days(measured_at, now)
    if age_days is None:
        return "at an unknown time"
    days = max(0, int(age_days))
    ago = "today" if days == 0 else f"{days} day{'s' if days > 1 else ''} ago"
    return f"{measured_at[:10]}, {ago}"


def _judge_age(measured_at: str, now: datetime) -> list[str]:
    age_days = compute_age_days(measured_at, now)
    if age_days is None:
        return [f"it does not say when it was measured ({measured_at!r})"]
    if age_days < -1:
        return [f"it is dated {measured_at}, which is yet to come: a clock is wrong"]
    if age_days > MAX_AGE_DAYS:
        return [f"it is {int(age_days)} days old: after {MAX_AGE_DAYS} days it is measured again"]
    return []


def _call_variant(variant: str) -> str:
    return f"the variant {variant}" if variant else "the model as released"


def _enumerate(names: Iterable[str]) -> str:
    listed: Sequence[str] = list(names)
    more = len(listed) - _MOST_NAMES
    return ", ".join(listed[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
