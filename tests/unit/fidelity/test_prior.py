"""What is known of predictions before any run: a profile's own uncertainty, for its own request alone."""

from dataclasses import replace

import pytest
from builders import build_component, build_facts
from planning_builders import build_target
from spread_builders import build_uncertainty

from autotune.fidelity.prior import find_own_uncertainty
from autotune.profile import Profile

FACTS = build_facts({"transformer": build_component(2)})
TARGET = build_target(10**9)
KNOWN = build_uncertainty({"copy": 0.01})
PROFILE = Profile(facts=FACTS, rates=TARGET.rates, context_bytes=0, device=TARGET.device, uncertainty=KNOWN)


def test_a_profile_knows_the_factors_of_its_own_request():
    assert find_own_uncertainty(PROFILE, FACTS, TARGET.device.name) == KNOWN
    assert find_own_uncertainty(None, FACTS, TARGET.device.name) is None


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, workload=replace(FACTS.workload, width=2 * FACTS.workload.width)),
        replace(FACTS, variant="other"),
        replace(FACTS, tp_size=2),
        replace(FACTS, model=replace(FACTS.model, name="other")),
    ],
    ids=["request", "variant", "ranks", "model"],
)
def test_a_profile_knows_nothing_of_another(facts):
    assert find_own_uncertainty(PROFILE, facts, TARGET.device.name) is None


def test_a_profile_knows_nothing_of_another_device():
    assert find_own_uncertainty(PROFILE, FACTS, "another") is None
