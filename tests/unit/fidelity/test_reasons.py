"""Why figures may be off: general rules."""

from dataclasses import replace

import pytest
from builders import streamed
from calibration_builders import build_ground
from comparison_builders import MOVED, build_case, build_figure, peak_of

from autotune.fidelity.comparison import Kind
from autotune.fidelity.reasons import count_copied_again, list_difference_reasons, list_exhaustion_reasons, list_reasons
from autotune.observed.observation import PeakKind
from runtime.hosting import HostMemory
from runtime.residency import Policy

GROUND = build_ground()
OLDER = "an older server than 0.5.23, which is simulated"
SAMPLED = "the peak was sampled: a short one may be missed"
DECODER = "the decoder's weights may have been float32"


def _reasons(figure=None, **changes):
    return " | ".join(list_reasons(build_case(**changes), figure or build_figure()))


def test_figure_within_what_is_tolerated_needs_no_reason():
    assert list_reasons(build_case(caveats=(OLDER,)), build_figure(predicted=10.9)) == ()
    assert list_reasons(build_case(caveats=(OLDER,)), build_figure(predicted=10.9, calibrated=13.0))


def test_age_of_the_server_comes_last():
    reasons = list_reasons(build_case(caveats=(OLDER, "it ran with sage, which is not modelled")), build_figure())
    assert reasons == ("it ran with sage, which is not modelled", OLDER)


def test_caveats_of_peaks_and_of_decoders_stay_with_these():
    assert SAMPLED not in _reasons(caveats=(SAMPLED, DECODER))
    assert DECODER not in _reasons(caveats=(SAMPLED, DECODER))
    peak = build_figure(kind=Kind.PEAK, components=())
    told = _reasons(peak, caveats=(SAMPLED, DECODER), peak=peak_of(10))
    assert SAMPLED in told
    assert DECODER in told


def test_short_time_is_the_hosts():
    assert "launching kernels" in _reasons(build_figure(observed=0.05, predicted=0.01))


def test_moved_component_is_copied_tensor_by_tensor():
    assert "tensor by tensor" in _reasons(transformer=MOVED)
    assert "tensor by tensor" not in _reasons()


@pytest.mark.parametrize(
    ("layers", "prefetch", "again"), [(60, 16, 4), (10, 1, 0), (10, 3, 2), (10, 4, 2), (10, 5, 0), (10, 10, 0)]
)
def test_layers_copied_past_the_head_are_copied_again(layers, prefetch, again):
    # Of ten layers with 3 ahead the last ones to be asked for are 9 + 3 .. 9 + 5, of which 3 and 4 are past the head.
    assert count_copied_again(streamed("transformer", prefetch=prefetch), layers) == again


def test_strided_and_moved_ones_are_never_copied_again():
    assert count_copied_again(streamed("transformer", prefetch=3, policy=Policy.STRIDED), 10) == 0
    assert count_copied_again(MOVED, 10) == 0


def test_tiers_of_the_host_are_reasons_where_they_are_used():
    ground = build_case().ground
    poor = replace(ground, host=HostMemory(available_bytes=2**40, pins=False))
    assert "pageable memory" in _reasons(ground=poor)
    assert "pageable memory" not in _reasons()


def test_ranks_have_reasons_of_their_own():
    case = build_case(peak=peak_of(10, PeakKind.DRIVER))
    ranks = replace(case, observation=replace(case.observation, setup=replace(case.observation.setup, tp_size=2)))
    peak = build_figure(kind=Kind.PEAK, components=())
    assert any("communication library" in text for text in list_reasons(ranks, peak))
    assert any("profile of two cards" in text for text in list_reasons(ranks, build_figure()))


def test_difference_names_what_is_true_of_one_run_alone_first():
    layers = len(GROUND.facts.model.component("transformer").stacks[0].layers)
    ahead = build_case("ahead", streamed("transformer", prefetch=layers - 1), caveats=(OLDER,))
    reasons = list_difference_reasons(ahead, build_case("plain"), build_figure())
    assert "give 1 layer(s) back" in reasons[0]
    assert reasons[-1] == OLDER


def test_shortage_has_the_caveats_of_peaks():
    assert list_exhaustion_reasons(build_case(caveats=(SAMPLED, OLDER))) == (SAMPLED, OLDER)
