import pytest

from autotune.catalog.registry import find_model
from autotune.observed.observation import Base
from autotune.observed.placement_cells import read_placement
from autotune.observed.refusal import RowRefusedError


def _read(model="H3", rest="", *, is_of_one_use=False, **cells):
    return read_placement(find_model(model), cells, rest, is_of_one_use=is_of_one_use)


@pytest.mark.parametrize(
    ("model", "cells", "settings"),
    [
        (
            "H3",
            {"component": "DiT+TE+VAE layerwise, video_vae=36 resident", "prefetch": "1", "resident": "0"},
            ("transformer.prefetch=1", "transformer.resident=0", "video_vae.resident=36"),
        ),
        ("H3", {"component": "video_vae=36 at 9.7 GiB", "resident": "36"}, ("video_vae.resident=36",)),
        (
            "H3",
            {"component": "DiT+TE layerwise, VAE resident", "prefetch": "1"},
            ("transformer.prefetch=1", "video_vae.mode=resident"),
        ),
        ("H3", {"component": "video VAE streamed", "prefetch": "2"}, ("video_vae.prefetch=2",)),
        ("H3", {"component": "audio VAE layerwise"}, ("audio_vae.mode=layerwise-offload",)),
        (
            "H3",
            {"prefetch": "0.0 (=1 layer)", "resident": "0.2 (10 of 50)"},
            ("transformer.prefetch=1", "transformer.resident=10"),
        ),
        ("H3", {"resident": "0.2", "layers": "50"}, ("transformer.resident=10",)),
        (
            "H3",
            {"policy": "leading/lifetime permanent", "resident": "24"},
            ("transformer.resident=24", "transformer.lifetime=permanent"),
        ),
        ("H3", {"policy": "strided", "resident": "12"}, ("transformer.resident=12", "transformer.policy=strided")),
        ("H3", {"component": "DiT", "resident": "all"}, ("transformer.mode=resident",)),
        (
            "H3",
            {"component": "text_encoder resident 53 of 66 layers, DiT resident"},
            ("text_encoder.resident=53", "transformer.mode=resident"),
        ),
        (
            "Qwen-Image",
            {"component": "text encoder", "policy": "whole-component cpu_offload", "resident": "0"},
            ("text_encoder.mode=component-offload",),
        ),
        (
            "Qwen-Image",
            {"component": "DiT resident, TE cpu offload", "resident": "all"},
            ("text_encoder.mode=component-offload", "transformer.mode=resident"),
        ),
        (
            "Wan2.2-T2V-A14B",
            {"component": "DiT layerwise", "prefetch": "2"},
            ("transformer.prefetch=2", "transformer_2.prefetch=2"),
        ),
        (
            "H3",
            {"settings": "transformer.resident=30; video_vae.mode=resident"},
            ("transformer.resident=30", "video_vae.mode=resident"),
        ),
    ],
)
def test_placement_is_read_from_words_and_knobs(model, cells, settings):
    assert _read(model, **cells).settings == settings


def test_component_may_stand_in_the_model_cell():
    stated = _read(rest=" video VAE", component="whole-component D2H swap-out", policy="component-offload")
    assert stated.settings == ("video_vae.mode=component-offload",)
    assert stated.named == ("video_vae",)


@pytest.mark.parametrize(
    ("cells", "is_of_one_use", "base"),
    [
        ({"component": "all resident", "resident": "all"}, False, Base.RESIDENT),
        ({"component": "DiT", "prefetch": "1"}, False, Base.STREAMED),
        ({"settings": "transformer.resident=3"}, False, Base.STREAMED),
        ({"component": "DiT resident"}, False, Base.SERVER_DEFAULT),
        ({}, False, Base.SERVER_DEFAULT),
        ({"component": "text encoder", "policy": "resident"}, True, Base.STREAMED),
    ],
)
def test_base_follows_from_what_the_row_places(cells, is_of_one_use, base):
    assert _read(**cells, is_of_one_use=is_of_one_use).base is base


def test_components_that_the_row_does_not_place_are_listed():
    assert "text_encoder, video_vae, audio_vae" in _read(component="DiT", prefetch="1").assumed[-1]
    assert not _read(component="all resident").assumed


def test_policy_of_several_runs_is_the_first_and_says_so():
    stated = _read(component="DiT", policy="leading and strided (identical)", resident="12")
    assert stated.settings == ("transformer.resident=12",)
    assert "several" in stated.assumed[0]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"resident": "auto"}, "no number of layers"),
        ({"resident": "13 GB"}, "no number of layers"),
        ({"resident": "0.5"}, "needs the column layers"),
        ({"prefetch": "async 2 streams"}, "no number of layers"),
        ({"policy": "swap"}, "policy is 'swap'"),
        ({"component": "DiT resident", "resident": "0", "prefetch": "1"}, "keep one of them"),
        ({"component": "DiT resident 10", "resident": "20"}, "keep one of them"),
        ({"settings": "transformer=3"}, "component.knob=value"),
        ({"settings": "vae.resident=3"}, "component of H3"),
    ],
)
def test_placement_that_cannot_be_expressed_is_refused(cells, message):
    with pytest.raises(RowRefusedError, match=message):
        _read(**cells)
