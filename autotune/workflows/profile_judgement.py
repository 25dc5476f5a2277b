"""Judges profiles by this machine as it is now."""

from __future__ import annotations

from dataclasses import replace

from autotune.capture_cache import find_facts_key
from autotune.catalog.registry import find_model
from autotune.measurements.model_profile import ModelProfile
from autotune.measurements.node_profile import NodeFingerprint, NodeProfile
from autotune.measurements.validity import (
    ModelWish,
    Verdict,
    describe_kind,
    judge_model_profile,
    judge_node_profile,
)
from autotune.workflows.stored_profiles import Here, is_here
from autotune.workload import Workload
from runtime.errors import AutotuneError


def judge_here(profile: ModelProfile | NodeProfile, here: Here) -> Verdict:
    """Whether ``profile`` is valid on this machine; models and requests do not matter."""
    if isinstance(profile, NodeProfile):
        return judge_node_profile(profile, _fingerprint_here(profile, here), here.versions, here.now)
    verdict = judge_at_home(profile, here)
    if is_here(profile.kind, here):
        return verdict
    elsewhere = f"it was measured on {describe_kind(profile.kind)}, which this machine does not have"
    return replace(verdict, reasons=(elsewhere, *verdict.reasons))


def judge_at_home(profile: ModelProfile, here: Here) -> Verdict:
    """Whether ``profile`` is valid where its device is: a machine without such a device has no say in software."""
    wish = ModelWish()
    if is_here(profile.kind, here):
        key = find_key(profile.facts.model.name, profile.facts.workload)
        wish = ModelWish(versions=here.versions, facts_key=key)
    return judge_model_profile(profile, wish, here.now)


def find_key(name: str, workload: Workload) -> str | None:
    """What facts of a catalog model would depend on now; None where that cannot be told."""
    try:
        return find_facts_key(find_model(name).name, workload)
    except AutotuneError:
        return None


def _fingerprint_here(profile: NodeProfile, here: Here) -> NodeFingerprint:
    """What ``profile`` would be of, were it measured now; a card that is gone has made room for another."""
    node = profile.node
    uuid = node.device_uuid if node.device_uuid in here.cards else next(iter(here.cards), node.device_uuid)
    return replace(node, machine=here.machine.digest, kernel=here.machine.kernel, device_uuid=uuid)
