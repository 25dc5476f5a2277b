"""Lists the stored profiles, each with whether it is valid here and now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from autotune.measurements.model_profile import ModelProfile
from autotune.measurements.node_profile import NodeProfile
from autotune.measurements.store import ProfileStore, Stored
from autotune.measurements.validity import Verdict, describe_age, describe_kind
from autotune.workflows.measured_inputs import look_here
from autotune.workflows.profile_judgement import judge_here


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One stored profile and the verdict on it."""

    item: Stored[ModelProfile] | Stored[NodeProfile]
    verdict: Verdict

    @property
    def title(self) -> str:
        """What it is of."""
        profile = self.item.profile
        if isinstance(profile, NodeProfile):
            return f"node, {profile.node.device}: {describe_kind(profile.node.kind)}"
        facts = profile.facts
        name = f"{facts.model.name} {facts.variant}".strip()
        return f"{name} on {describe_kind(profile.kind)}: {facts.workload.describe()}"

    def describe_state(self, now: datetime) -> str:
        """Its age and whether it is valid."""
        valid = "valid here" if self.verdict.is_valid else f"not valid here: {'; '.join(self.verdict.reasons)}"
        return f"measured {describe_age(self.item.profile.measured_at, now)}; {valid}"


def list_stored(store: ProfileStore, now: datetime) -> tuple[Listed, ...]:
    """Every profile of ``store``: models first, the freshest first. Files that cannot be read are in its problems."""
    stored: list[Stored[ModelProfile] | Stored[NodeProfile]] = [*store.list_models(), *store.list_nodes()]
    if not stored:
        return ()
    here = look_here(now)
    return tuple(Listed(item=item, verdict=judge_here(item.profile, here)) for item in stored)
