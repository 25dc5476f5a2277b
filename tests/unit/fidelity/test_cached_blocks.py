"""What the allocator holds of weights that were given back."""

from builders import streamed
from calibration_builders import build_ground
from comparison_builders import MOVED, build_case, peak_of, place

from autotune.fidelity.cached_blocks import count_reserved_weights, keep_largest, list_window_starts
from autotune.observed.observation import PeakKind
from runtime.plan import Placement
from runtime.residency import Mode

RESIDENT = Placement(component="transformer", mode=Mode.RESIDENT)


def test_cache_is_emptied_after_a_request_and_after_a_transformer_that_gave_its_weights_back():
    # load; two requests of text encoder, after, transformer, after, vae, after, idle
    starts = list_window_starts(build_ground().facts, place(streamed("transformer")))
    assert starts == (0, 1, 1, 1, 4, 4, 4, 4, 8, 8, 8, 11, 11, 11, 11)


def test_resident_transformer_gives_nothing_back_and_empties_nothing():
    starts = list_window_starts(build_ground().facts, place(RESIDENT))
    assert starts == (0, *[1] * 7, *[8] * 7)


def test_largest_since_the_cache_was_emptied_is_kept():
    assert keep_largest((5, 1, 3, 2, 4), (0, 0, 2, 2, 2)) == (5, 5, 3, 3, 4)


def test_window_of_the_encoder_stays_reserved_beside_the_transformers():
    case = build_case()
    evaluator = case.ground.build_evaluator({})
    reserved = count_reserved_weights(evaluator, case.plan, list_window_starts(case.ground.facts, case.plan))
    live = [phase.streamed_bytes + phase.standing_bytes for phase in evaluator.evaluate(case.plan).phases]
    uses = {phase.phase: index for index, phase in enumerate(evaluator.evaluate(case.plan).phases)}
    at = uses["later request: transformer"]
    encoder = evaluator.component_phases(0, case.plan.placement("text_encoder"), explicit=True)
    assert reserved[at] == live[at] + max(encoder[8 : at + 1]) - encoder[at]
    assert all(held >= now for held, now in zip(reserved, live, strict=True))


def test_only_counts_of_torch_leave_the_context_out():
    sizes = {
        kind: build_case(peak=peak_of(1, kind)).predict_peak_bytes({}) for kind in PeakKind if kind != "activations"
    }
    context = build_case().ground.context_bytes
    assert sizes[PeakKind.DRIVER] - sizes[PeakKind.RESERVED] == context
    assert sizes[PeakKind.UNSTATED] == sizes[PeakKind.RESERVED]
    assert sizes[PeakKind.ALLOCATED] < sizes[PeakKind.RESERVED]


def test_moved_transformer_is_reserved_whole():
    case = build_case(transformer=MOVED, peak=peak_of(1))
    component = case.ground.facts.model.component("transformer")
    assert case.predict_peak_bytes({}) > component.run_bytes
