"""Every catalog model under every cap on hosts from too small to ample: no surprise, and flags that read back."""

import itertools

import pytest

from autotune.capture_cache import load_model_facts
from autotune.catalog.registry import CATALOG
from autotune.exact import ExactSolver
from autotune.export.read_back import plan_from_options
from autotune.export.sglang import export_plan
from autotune.export.sglang_options import parse_options
from autotune.space import SearchSpace
from autotune.workflows.host import HostWish
from autotune.workflows.planning import PlanningSettings, build_evaluator
from autotune.workflows.target import resolve_target

GB, GIB = 10**9, 2**30
CAPS_GIB = (8, 12, 16, 24, 32, 48, 80)
HOSTS_GB = (32, 128)


@pytest.mark.parametrize("host_gb", HOSTS_GB)
@pytest.mark.parametrize("model", [entry.name for entry in CATALOG])
def test_every_cap_has_a_plan_or_a_reason(model, host_gb):
    facts = load_model_facts(model)
    target = resolve_target(
        device="b200",
        detection=None,
        vram_cap_bytes=None,
        host=HostWish(memory_bytes=host_gb * GB),
        pinned_bytes_per_s=None,
    )
    evaluator = build_evaluator(facts, target, PlanningSettings())
    # One solver answers for every cap, as in `autotune table`; its prefetch sizes are fewer than a search's.
    solver = ExactSolver(evaluator, SearchSpace(max_prefetch=2), limit_bytes=CAPS_GIB[-1] * GIB)
    latencies = []
    for cap_gib in CAPS_GIB:
        solution = solver.solve(cap_gib * GIB)
        if solution is None:
            assert not latencies, "a larger cap cannot fit less"
            nearest = evaluator.score(solver.nearest(cap_gib * GIB))
            assert nearest.charged_bytes > cap_gib * GIB or nearest.host_short_bytes
            continue
        chosen, score = solution.chosen, solution.chosen_score
        assert score.charged_bytes <= cap_gib * GIB
        assert not score.host_short_bytes
        latencies.append(solution.optimum_score.latency_s)
        exported = export_plan(chosen, facts.model, target="sglang@0.5.23")
        assert plan_from_options(parse_options(exported.argv), facts.model) == chosen
        hosting = evaluator.hosting_of(chosen)
        assert hosting.held_bytes - hosting.courier_bytes <= host_gb * GB
    # The search is exact where everything is pinned; elsewhere a larger cap may cost what it counts as a tie.
    slack = 1.0 if evaluator.always_pins else 1.005
    assert all(more <= less * slack * (1 + 1e-9) for less, more in itertools.pairwise(latencies))
