from datetime import date

import pytest

from autotune.observed.host_cells import read_host
from autotune.observed.refusal import RowRefusedError
from autotune.observed.server_changes import choose_recipe, find_invalid_times, list_caveats, list_moved_whole
from autotune.observed.server_names import Period, read_period, read_server
from autotune.workload import Recipe
from runtime.units import GIB


def _server(**cells):
    empty = dict.fromkeys(("server", "source", "component", "model", "notes", "when"), "")
    return read_server(**{**empty, **cells})


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ({"source": "sgl-project/sglang PR #31538", "when": "2026-07-17"}, "sglang PR #31538 2026-07-17"),
        ({"source": "lab/h3", "notes": "m1; SGLang 6eb941a", "when": "2026-08-15"}, "sglang 6eb941a 2026-08-15"),
        ({"source": "sgl cookbook quote", "when": "2026-08 (stored version)"}, "sglang 2026-08"),
        ({"source": "SGLang ComfyUI integrated mode"}, "sglang"),
        ({"server": "sglang 0.5.23"}, "sglang 0.5.23"),
        ({"server": "0.5.23"}, "sglang 0.5.23"),
        ({}, "sglang"),
    ],
)
def test_server_is_named_as_far_as_the_row_goes(cells, text):
    server = _server(**cells)
    assert (server.is_sglang, server.text) == (True, text)


@pytest.mark.parametrize(
    "cells",
    [
        {"source": "vllm-project/vllm-omni recipes/H3.md"},
        {"source": "huggingface/diffusers PR #11106"},
        {"source": "sgl-project/sglang", "component": "ComfyUI DisTorch"},
        {"source": "lab/h3", "component": "DLO rank-local", "notes": "SGLang TP4 runs out of memory"},
        {"server": "vllm-omni 0.26", "source": "sgl-project/sglang"},
        {"model": "MiniMax-H3 in MNN CUDA fp16", "source": "a note"},
    ],
)
def test_another_engine_is_named(cells):
    server = _server(**cells)
    assert not server.is_sglang
    assert server.text


def test_other_engines_in_notes_are_comparisons():
    assert _server(source="sgl-project/sglang PR #1", notes="ComfyUI same cap: 276-302 s").is_sglang


def test_source_without_a_server_is_not_guessed_at_but_no_source_is():
    assert _server(source="someone's blog").text == ""
    assert "not named" in _server().assumed


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026-07-17", date(2026, 7, 17), date(2026, 7, 17)),
        ("2026-08-23 (updated 09-16)", date(2026, 8, 23), date(2026, 8, 23)),
        ("2026-09-21 or later", date(2026, 9, 21), None),
        ("2026-08 (stored version)", date(2026, 8, 1), date(2026, 8, 31)),
        ("2026-08/09", date(2026, 8, 1), date(2026, 9, 30)),
        ("2025", date(2025, 1, 1), date(2025, 12, 31)),
        ("2026-02-30", None, None),
        ("2026-13", None, None),
        ("yesterday", None, None),
    ],
)
def test_date_is_a_period(text, first, last):
    assert read_period(text) == Period(first=first, last=last)


@pytest.mark.parametrize(
    ("cells", "size_gib", "pins"),
    [
        ({"pin": "pinned within 32 GB host, rest mmap"}, 32, True),
        ({"pin": "per-layer pinning within 48 GB host"}, 48, True),
        ({"pin": "pinned within 96 GB+ host, rest mmap"}, 96, True),
        ({"pin": "mmap (32 GB host, 24.5 GiB anonymous)"}, 32, False),
        ({"pin": "unpinned mmap", "notes": "host envelope 32 GiB"}, 32, False),
        ({"pin": "pageable"}, None, False),
        ({"pin": "default (pinned)", "notes": "host used peak 185.11 GiB"}, None, True),
        ({"pin": "pinned (1007 GB host)"}, 1007, True),
        ({"gpu": "2x RTX 5090 TP2, 125 GB host"}, 125, True),
        ({}, None, True),
    ],
)
def test_host_is_read_from_words(cells, size_gib, pins):
    host = read_host(cells)
    assert (host.size_bytes, host.pins) == (None if size_gib is None else size_gib * GIB, pins)


def test_host_memory_in_its_column_is_as_written():
    assert read_host({"host_memory": "64GB", "pin": "32 GB host"}).size_bytes == 64 * 10**9
    with pytest.raises(RowRefusedError, match="host_memory"):
        read_host({"host_memory": "plenty"})


def test_times_of_mapped_weights_are_invalid_before_the_repair():
    mapped, pinned = read_host({"pin": "mmap"}), read_host({"pin": "pinned"})
    assert "#35813" in find_invalid_times(read_period("2026-08-20"), mapped)
    assert find_invalid_times(read_period("2026-08-21"), mapped) == ""
    assert find_invalid_times(read_period("2026-08"), mapped) == ""
    assert find_invalid_times(read_period("2026-08-20"), pinned) == ""


def test_recipe_is_the_one_nearest_to_what_ran():
    def recipe(when, component="DiT"):
        return choose_recipe(read_period(when), component, decodes_tiles=True)[0]

    assert recipe("2026-08-20") is Recipe.EXACT
    assert recipe("2026-08/09") is Recipe.DEFAULT
    assert recipe("2026-11-01", "DiT streamed (memory mode)") is Recipe.EXACT
    assert choose_recipe(read_period("2026-08-20"), "", decodes_tiles=False) == (Recipe.DEFAULT, "")


def test_encoders_moved_whole_until_they_streamed_by_default():
    encoders = ("text_encoder", "text_encoder_2")
    moved = list_moved_whole(read_period("2026-03-24"), encoders, ("text_encoder_2.mode=resident",))
    assert moved == ("text_encoder.mode=component-offload",)
    assert list_moved_whole(read_period("2026-05-17"), encoders, ()) == ()
    assert list_moved_whole(read_period(""), encoders, ()) == ()


def test_older_server_is_a_caveat_and_so_is_no_date():
    ample = read_host({})
    assert "older server" in list_caveats("sglang", read_period("2026-07-17"), ample, decoder="")[0]
    assert "no date" in list_caveats("sglang", read_period(""), ample, decoder="")[0]
    assert not list_caveats("sglang", read_period("2026-11-20"), ample, decoder="")
    assert not list_caveats("sglang 0.5.23", read_period(""), ample, decoder="")


def test_host_rules_and_decoder_of_old_servers_are_caveats():
    small = read_host({"pin": "mmap (32 GB host)"})
    caveats = " ".join(list_caveats("sglang", read_period("2026-08-20"), small, decoder="decoder 9.7 GiB"))
    assert "before pins by layer" in caveats
    assert "copied synchronously" in caveats
    assert "float32" in caveats
    assert "float32" not in " ".join(
        list_caveats("sglang", read_period("2026-08"), small, decoder="VAE decoder fp16 ~4.9 GiB")
    )
