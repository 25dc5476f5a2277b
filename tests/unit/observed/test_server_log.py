"""Logs of the server: formats of several releases, cut, mixed and damaged ones."""

import random
from pathlib import Path

import pytest
from observed_builders import STAMP, format_loaded, format_pins, format_ready

from autotune.observed.observation import Scope, Setup
from autotune.observed.read_server_log import load_server_log, parse_server_log
from autotune.observed.run_observation import list_settings, observe_log
from autotune.observed.server_log import StackPins
from autotune.workload import Workload
from runtime.errors import InputError

DATA = Path(__file__).parents[2] / "data" / "observed"
H3_LOG = DATA / "h3_small_host_server.log"
STACKS = {"blocks": 50, "token_refiner.blocks": 2}
READY = format_ready("transformer", STACKS, prefetch=4, resident=14)


def parse(*lines):
    return parse_server_log(lines, "server.log")


def test_the_servers_own_lines_give_placements_pins_and_requests():
    log = load_server_log(H3_LOG)
    assert (log.model, log.oldest, log.is_ready, log.ran_out, log.notes, log.faults) == (
        "MiniMaxAI/MiniMax-H3", (0, 5, 21), True, False, (), (),
    )  # fmt: skip
    transformer = log.find_streamed("transformer")
    assert (transformer.layers, transformer.resident, transformer.prefetch) == (52, 0, (1,))
    assert transformer.stacks == STACKS
    assert [(item.pinned, item.pageable, item.mapped) for item in log.pins] == [
        (31, 0, 19), (1, 1, 0), (0, 0, 50), (4, 23, 0), (0, 36, 0),
    ]  # fmt: skip
    assert (len(log.requests), log.last_request.steps, log.last_request.width) == (2, 20, 864)
    assert log.last_request.stages["MiniMaxH3DecodingStage"] == 12.2932


def test_the_builders_of_these_tests_write_what_the_server_writes():
    written = H3_LOG.read_text()
    line = format_ready("transformer", STACKS)[1]
    assert line.partition(" in ")[2].partition(": ")[2] in written
    pins = format_pins("transformer.blocks", 31, 0, 19).removeprefix(STAMP)
    for part in ("Layerwise offload: transformer.blocks pins 31 of 50 layers (", pins[pins.index("spendable") : -9]):
        assert part.rpartition(" ")[0] in written


def test_settings_of_a_log_are_those_that_the_option_set_takes():
    log = parse(format_loaded("vae", "vram"), format_loaded("transformer", "host mmap"), *READY)
    assert list_settings(log) == (
        "transformer.mode=layerwise-offload",
        "transformer.prefetch=4",
        "transformer.resident=14",
        "transformer.policy=leading",
        "transformer.lifetime=forward",
        "vae.mode=resident",
    )


def test_a_logged_request_becomes_an_observation():
    workload = Workload(width=1024, height=1024, frames=1, steps=50, prompt_tokens=512)
    log = load_server_log(DATA / "qwen_image_server.log")
    setup = Setup(model="Qwen-Image", device="rtx-5090", workload=workload)
    observation = observe_log(log, setup, name="run", components=("text_encoder", "transformer", "vae"))
    found = {(item.scope, item.component): item.seconds for item in observation.latencies}
    assert found[Scope.STEP, "transformer"] == log.last_request.mean_step_s
    assert found[Scope.REQUEST, ""] == log.last_request.total_s
    assert observation.peak.size_bytes == log.last_request.peak_reserved_bytes
    assert "transformer.resident=20" in observation.settings


@pytest.mark.parametrize(
    ("lines", "oldest", "newest"),
    [
        (READY, (0, 5, 21), None),
        (format_ready("transformer", STACKS, resident=14, prefetch=4, lifetime=""), (0, 5, 19), (0, 5, 20)),
        (
            [
                "LayerwiseOffloadManager initialized with num prefetched layer: 4, num resident layers: 14, total num "
                "layers: 50",
                "LayerwiseOffloadManager initialized with num prefetched layer: 2, num resident layers: 2, total num "
                "layers: 2",
                "Enabled layerwise offload for Toy on modules: ['blocks', 'token_refiner.blocks']",
                "Enabled layerwise offload for pipeline components: ['transformer']",
            ],
            (0, 5, 17),
            (0, 5, 17),
        ),
    ],
)
def test_the_wording_tells_the_release_and_every_release_the_same_placement(lines, oldest, newest):
    log = parse(*lines)
    transformer = log.find_streamed("transformer")
    assert (log.oldest, log.newest) == (oldest, newest)
    assert (transformer.layers, transformer.resident, transformer.prefetch) == (52, 16, (2, 4))
    assert transformer.resident_per_stack == 14
    assert transformer.stacks == STACKS


def test_a_release_that_names_components_alone_says_that_they_stream_and_no_more():
    log = parse("Enabled layerwise offload for pipeline components: ['transformer', 'vae']")
    assert log.oldest == log.newest == (0, 5, 18)
    assert log.find_streamed("vae").layers is None
    assert list_settings(log) == ("transformer.mode=layerwise-offload", "vae.mode=layerwise-offload")


@pytest.mark.parametrize(
    "text", ["pip: sglang==0.5.23", "image lmsysorg/sglang:v0.5.23", "sglang version: 0.5.23", "SGLang 0.5.23 starts"]
)
def test_a_release_is_taken_from_whatever_line_names_it(text):
    assert parse(*READY, text).version == "0.5.23"


@pytest.mark.parametrize("text", ["sglang 127.0.0.1:30000", "sglang 1.2.3.4", "/opt/sglang/python/0.5"])
def test_addresses_and_paths_are_no_release(text):
    assert parse(*READY, text).version == ""


def test_colours_stamps_carriage_returns_and_container_prefixes_do_not_matter(tmp_path):
    file = tmp_path / "server.log"
    first, second = READY
    file.write_bytes(
        f"2026-09-21T14:13:20.5Z stdout F \x1b[93m{first}\x1b[0;0m\r\n 10%|#  | 1/10\r{second}\r\n".encode()
        + b"\xff\xfe\n"
    )
    assert load_server_log(file).find_streamed("transformer").resident == 16


def test_lines_of_two_ranks_in_one_are_both_read():
    log = parse(READY[0], READY[1] + format_pins("transformer.blocks", 5, 0, 45))
    assert log.find_streamed("transformer").resident == 16
    assert log.pins[0].pinned == 5


def test_ranks_that_pin_differently_are_noted_and_the_least_is_taken():
    log = parse(*READY, format_pins("transformer.blocks", 30, 0, 20), format_pins("transformer.blocks", 28, 0, 22))
    assert log.pins == (
        StackPins(
            component="transformer", stack="blocks", layers=50, pinned=28, pageable=0, mapped=22, pinned_gib=1.0,
            spendable_gib=1.0,
        ),
    )  # fmt: skip
    assert "ranks differ" in log.notes[0]


def test_of_several_starts_the_last_one_counts_and_is_said():
    text = H3_LOG.read_text().splitlines()
    log = parse(*text, "server_args: {}", *format_ready("transformer", STACKS, resident=3))
    assert log.notes == ("server.log holds 2 starts of the server: the last one is used",)
    assert (log.find_streamed("transformer").resident, log.requests, log.model) == (5, (), "")


def test_a_start_that_said_nothing_yet_does_not_hide_the_one_before():
    log = parse(*H3_LOG.read_text().splitlines(), "server_args: {}")
    assert len(log.requests) == 2
    assert log.notes == ()


def test_memory_of_host_and_device_in_one_keeps_layers_mapped():
    log = parse(
        *READY,
        "Layerwise offload: transformer.blocks keeps 48 of 50 layers on the checkpoint mapping (host and device share "
        "one memory pool, so a pinned or pageable copy would hold the same bytes twice); 2 layers without a mapping "
        "stay pageable.",
    )
    assert (log.pins[0].pinned, log.pins[0].pageable, log.pins[0].mapped) == (0, 2, 48)


def test_running_out_of_memory_is_of_the_request_that_was_running():
    loading = parse(*READY, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    serving = parse(*READY, "Sampling params:", "OOM detected. Possible solutions:")
    assert loading.ran_out
    assert loading.requests == ()
    assert serving.requests[0].ran_out


def test_requests_without_their_parameters_are_told_apart_by_their_stages():
    stages = ["[TextEncodingStage] finished in 1.5 seconds", "[DenoisingStage] finished in 9.0 seconds"]
    log = parse(*stages, *stages, "Pixel data generated successfully in \x1b[92m11.00\x1b[0;0m seconds")
    assert len(log.requests) == 2
    assert log.requests[0].stages == {"TextEncodingStage": 1.5, "DenoisingStage": 9.0}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (READY[1][:120], "is cut off or of an unknown release"),
        ('server_args: {"model_path": "Qwen/Qw', "is no whole JSON"),
        (format_pins("transformer.blocks", 5, 0, 45).replace("of 50 layers", "of 49 layers"), "are not 49"),
    ],
)
def test_a_damaged_line_is_one_fault_and_the_rest_is_used(line, fault):
    log = parse(line, *format_ready("text_encoder", {"layers": 28}))
    assert len(log.faults) == 1
    assert fault in log.faults[0]
    assert log.find_streamed("text_encoder").layers == 28


def test_a_log_cut_anywhere_after_its_first_line_is_read_with_one_fault_at_most():
    content = H3_LOG.read_text()
    for cut in range(content.index("Loading pipeline") + 40, len(content), 997):
        log = parse(*content[:cut].splitlines())
        assert log.model == "MiniMaxAI/MiniMax-H3"
        assert len(log.faults) <= 1


def test_random_bytes_in_a_log_break_nothing(tmp_path):
    rng, content = random.Random(3), H3_LOG.read_bytes()
    file = tmp_path / "server.log"
    for _ in range(60):
        position = rng.randrange(len(content))
        file.write_bytes(content[:position] + rng.randbytes(40) + content[position + rng.randrange(80) :])
        assert len(load_server_log(file).faults) <= 2


@pytest.mark.parametrize("content", [b"", b"\x00" * 5000, b"{}", b"INFO vllm: ready\n" * 100, b"a" * 3_000_000])
def test_what_is_no_log_of_the_server_is_refused(tmp_path, content):
    file = tmp_path / "server.log"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"no line of .* is of SGLang-diffusion's log"):
        load_server_log(file)


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path):
    for path in (tmp_path / "missing.log", tmp_path):
        with pytest.raises(InputError, match="cannot read the log"):
            load_server_log(path)
