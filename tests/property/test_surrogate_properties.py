"""Planes of random toy models under random factors: what the fit samples is never above the replay it stands for."""

import numpy as np
from builders import RATES, SGLANG, build_component, build_facts, build_plan
from hypothesis import given
from hypothesis import strategies as st
from strategies import components, placements

from autotune.evaluate import AMPLE_HOST
from autotune.fidelity.case import Case, Ground
from autotune.fidelity.surrogate import Surrogate
from autotune.observed.observation import Observation, ObservedLatency, Scope, Setup

FACTORS = ("copy", "compute.text_encoder", "compute.dit", "compute.vae", "pass_s", "use_s")
WIDTHS = np.array([1.0, 1.0, 1.0, 1.0, 0.01, 0.01])
POINTS = st.lists(st.floats(0.2, 4.0), min_size=len(FACTORS), max_size=len(FACTORS)).map(
    lambda values: np.asarray(values) * WIDTHS
)


@st.composite
def requests(draw):
    """Seconds of a whole request of a random toy, as a function of multipliers and added seconds."""
    toys = {name: draw(components(is_dit=name == "dit")) for name in ("text_encoder", "dit", "vae")}
    toys["vae"] = toys["vae"] if draw(st.booleans()) else build_component(0, outside_ms=3.0)
    ground = Ground(facts=build_facts(toys), rates=RATES, context_bytes=0, host=AMPLE_HOST, engine=SGLANG)
    plan = build_plan(*(draw(placements(component)) for component in ground.facts.model.components))
    setup = Setup(model="toy", device="toy", workload=ground.facts.workload)
    whole = ObservedLatency(seconds=1.0, scope=Scope.REQUEST)
    case = Case(Observation(name="a", where="here", setup=setup, latencies=(whole,)), plan, ground)

    def predict(point):
        factors = {
            name: float(value if name in {"pass_s", "use_s"} else np.log(value))
            for name, value in zip(FACTORS, point, strict=True)
        }
        return np.asarray(case.predict_latencies_s(ground.build_evaluator(factors)))

    return predict


@given(predict=requests(), planes=st.lists(POINTS, min_size=1, max_size=3), points=st.lists(POINTS, min_size=1))
def test_surrogate_is_never_above_the_replay_of_a_request(predict, planes, points):
    surrogate = Surrogate(predict, WIDTHS)
    for plane in planes:
        surrogate.add_plane(plane)
    exact = np.array([predict(point) for point in points])
    assert np.all(surrogate.evaluate(np.array(points)) <= exact * (1 + 1e-6) + 1e-6)


@given(predict=requests(), plane=POINTS)
def test_surrogate_is_the_replay_where_its_plane_was_taken(predict, plane):
    surrogate = Surrogate(predict, WIDTHS)
    exact = surrogate.add_plane(plane)
    assert np.allclose(surrogate.evaluate(plane[None, :])[0], exact, rtol=1e-9, atol=1e-12)
