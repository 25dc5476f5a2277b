import pytest

from autotune.catalog.registry import find_model
from autotune.observed.latency_cells import UNSYNCED_STAGE, invalidate, read_latencies
from autotune.observed.observation import Scope


def _read(latency="", scope="", notes="", model="H3", named=()):
    return read_latencies(find_model(model), named, latency=latency, scope=scope, notes=notes)


def _list(stated):
    return [(latency.seconds, latency.scope, latency.component) for latency in stated.latencies]


@pytest.mark.parametrize(
    ("scope", "part", "component"),
    [
        ("denoise stage total", Scope.USE, "transformer"),
        ("denoise, 50 sigma points (49 forwards)", Scope.USE, "transformer"),
        ("denoise per step", Scope.STEP, "transformer"),
        ("per step", Scope.STEP, "transformer"),
        ("DiT step median (steps 1-7)", Scope.STEP, "transformer"),
        ("decode stage", Scope.USE, "video_vae"),
        ("text encode", Scope.USE, "text_encoder"),
        ("whole request", Scope.REQUEST, ""),
        ("total (latency)", Scope.REQUEST, ""),
        ("E2E median", Scope.REQUEST, ""),
        ("pixel generation total", Scope.REQUEST, ""),
        ("request p50 (5 reps)", Scope.REQUEST, ""),
        ("", Scope.REQUEST, ""),
    ],
)
def test_scope_names_a_part_of_the_request(scope, part, component):
    assert _list(_read("10.5", scope)) == [(10.5, part, component)]


def test_denoising_of_two_experts_is_the_sum_of_both_uses():
    stated = _read("60", "denoise", model="Wan2.2-T2V-A14B")
    assert _list(stated) == [(60.0, Scope.USE, "transformer+transformer_2")]


def test_component_stage_is_of_the_components_that_the_row_names():
    named = ("text_encoder", "text_encoder_2")
    stated = _read("0.485", "component stage only (table in ms)", model="FLUX.1-dev", named=named)
    assert _list(stated) == [(0.485, Scope.USE, "text_encoder+text_encoder_2")]
    assert "does not name" in _read("0.485", "component stage only").dropped[0]


def test_move_to_the_host_is_of_one_component():
    assert _list(_read("0.37", "D2H swap-out", named=("video_vae",))) == [(0.37, Scope.MOVE_DOWN, "video_vae")]
    assert not _read("0.37", "D2H swap-out", named=("video_vae", "transformer")).latencies


def test_step_in_brackets_is_a_second_latency():
    stated = _read("538.8", "denoise (median 25.0 s/step)")
    assert _list(stated) == [(538.8, Scope.USE, "transformer"), (25.0, Scope.STEP, "transformer")]
    assert _list(_read("19.946", "request p50 (0.4674 s/step)"))[0] == (19.946, Scope.REQUEST, "")


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ("warm-time delta; pixel-time delta -10.1% (-2.4s)", "difference"),
        ("bandwidth", "rate"),
        ("stage1 2.07-2.12 it/s; stage2 1.99 s/it", "rate"),
        ("FPS", "rate"),
        ("model load", "loading"),
        ("H2D memcpy GPU time in 41.30 s of GPU time (1.6%)", "copies alone"),
        ("wave latency (4 outputs)", "other than one request"),
        ("5 forwards total", "other than one request"),
        ("sunshine", "no part of a request"),
    ],
)
def test_time_of_something_else_is_dropped_with_the_reason(scope, why):
    stated = _read("10.5", scope)
    assert not stated.latencies
    assert why in stated.dropped[0]


def test_notes_give_decode_denoise_and_request():
    stated = _read(notes="decode 9.4 s; request ~235 s; ComfyUI 276-302 s; denoise 150.0 s")
    assert _list(stated) == [
        (9.4, Scope.USE, "video_vae"),
        (150.0, Scope.USE, "transformer"),
        (235.0, Scope.REQUEST, ""),
    ]
    assert UNSYNCED_STAGE in stated.caveats


def test_notes_that_are_no_clear_figure_give_nothing():
    notes = "decode  s; request  s; text encode 0.50 s; denoise 141.20 s INVALID; E2E control 63.5 s; ~10.4 s/step"
    assert not _read(notes=notes).latencies


def test_the_cell_beats_the_notes():
    assert _list(_read("38.0", "decode", notes="decode 9.4 s")) == [(38.0, Scope.USE, "video_vae")]


def test_request_of_a_warm_up_is_dropped():
    stated = _read("851.3", "denoise", notes="warmup; server inference 890.7 s, decode 38.4 s")
    assert [latency.scope for latency in stated.latencies] == [Scope.USE, Scope.USE]
    assert "first one after load" in stated.dropped[0]


def test_invalid_times_leave_only_the_reason():
    stated = invalidate(_read("141.2", "denoise"), "a bug")
    assert (stated.latencies, stated.dropped) == ((), ("a bug",))
