import json
import shlex
from pathlib import Path

import pytest

from autotune.export.known_options import GENERATE_OPTIONS, SERVE_OPTIONS, WITHOUT_EFFECT
from autotune.export.option_values import ErrorKind, ServerOptionError
from autotune.export.server_command import explain_unknown, parse_command
from autotune.export.sglang_options import parse_options
from autotune.export.sglang_parser import PLACEMENT_OPTIONS
from runtime.errors import FlagError, UnsupportedError

DATA = Path(__file__).parents[2] / "data" / "sglang_flag_cases.jsonl"
CASES = [json.loads(line) for line in DATA.read_text().splitlines()]
KNOBS = ("mode", "prefetch_value", "resident_value", "policy", "lifetime")
START = "sglang serve --model-path M"


def parse(text):
    return parse_command(f"{START} {text}")


def read_components(text, names):
    command = parse_command(text)
    return [command.options.component(name) for name in names]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_recorded_lines_behind_the_server_s_name_mean_what_was_recorded(case):
    text = shlex.join(["sglang", "serve", "--model-path", "M", *case["argv"]])
    if "error" in case:
        with pytest.raises(ServerOptionError) as refusal:
            read_components(text, ("transformer", "text_encoder", "vae", "video_vae"))
        assert refusal.value.kind == case["error"]
        return
    for recorded, found in zip(case["components"].values(), read_components(text, case["components"]), strict=True):
        assert {knob: getattr(found, knob) for knob in KNOBS} == {knob: recorded[knob] for knob in KNOBS}


def test_a_pasted_script_with_variables_comments_and_continued_lines_is_read():
    command = parse_command(
        "#!/bin/sh\n# my server\nCUDA_VISIBLE_DEVICES=0 FOO='a b' \\\n  exec /opt/bin/sglang serve \\\n"
        "  --model-path 'org/a model' \\\n  --performance-mode=memory --pin-cpu-memory false > log.txt 2>&1 &\n"
    )
    assert (command.subcommand, command.model_path, command.performance_mode) == ("serve", "org/a model", "memory")
    assert command.pin_cpu_memory is False
    assert command.environment == {"CUDA_VISIBLE_DEVICES": "0", "FOO": "a b"}
    assert (command.unknown, command.unmodelled) == ((), ())


@pytest.mark.parametrize(
    "text",
    [
        "sglang serve M",
        "sglang serve --model-type diffusion --model-path M",
        "sglang generate --model-path M --prompt a cat",
        "python3 -m sglang.multimodal_gen.runtime.entrypoints.cli.main serve --model-path M",
        "python -m sglang.multimodal_gen.runtime.launch_server --model-path M",
        "docker run --gpus all -e A=1 image:tag sglang serve --model-path M; echo done",
        "sglang serve --model-path other --model-path=M",
    ],
)
def test_every_usual_way_to_start_the_server_gives_its_model(text):
    assert parse_command(text).model_path == "M"


def test_the_last_of_several_values_wins():
    assert parse("--performance-mode speed --mode auto --performance-mode manual").performance_mode == "manual"


def test_options_are_told_apart_by_what_they_mean_for_a_prediction():
    command = parse(
        "--port 1 --enable-torch-compile --enable-breakable-cuda-graph false --quantization fp8 --num-gpus 1 "
        "--vae-path /v --log-requests --frob x y --webui --lora-path l --batching-max-size 1"
    )
    assert set(command.ignored) == {
        "--port 1", "--enable-breakable-cuda-graph false", "--log-requests", "--webui true", "--batching-max-size 1",
    }  # fmt: skip
    assert set(command.unmodelled) == {
        "--enable-torch-compile true", "--quantization fp8", "--lora-path l",
        "--vae-path /v (read as an option of one component)",
    }  # fmt: skip
    assert command.unknown == ("--frob x y",)
    assert "refuses to start" in explain_unknown(command)[0]


def test_server_variables_that_a_prediction_does_not_follow_are_listed():
    command = parse_command(f"HF_HOME=/x SGLANG_CACHE_DIT_ENABLED=1 {START}")
    assert command.unmodelled == ("SGLANG_CACHE_DIT_ENABLED=1",)


def test_an_abbreviation_is_accepted_and_its_value_dropped_as_by_the_server():
    command = parse("--performance memory --dit-layerwise-resident 3")
    assert command.performance_mode == "auto"
    assert command.options.component("transformer").resident_value == 0
    assert len(command.warnings) == 2
    assert all("ignores its value" in warning for warning in command.warnings)


def test_an_ambiguous_abbreviation_is_refused():
    with pytest.raises(ServerOptionError, match="ambiguous") as refusal:
        parse("--dit-layer 3")
    assert refusal.value.kind is ErrorKind.USAGE


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("--num-gpus two", ErrorKind.USAGE, "num-gpus"),
        ("--num-gpus 0", ErrorKind.VALUE, "1 or more"),
        ("--tp-size 4", ErrorKind.VALUE, "divisible by --tp-size, 4"),
        ("--performance-mode Memory", ErrorKind.USAGE, "none of manual"),
        ("--pin-cpu-memory maybe", ErrorKind.VALUE, "true or false"),
        ("--num_gpus 1", ErrorKind.USAGE, "--num-gpus"),
        ("--port", ErrorKind.USAGE, "expected one argument"),
        ("--tp-size=--", ErrorKind.USAGE, "expected one argument|invalid int"),
        ("--host h stray", ErrorKind.USAGE, "unrecognized argument 'stray'"),
    ],
)
def test_what_the_server_refuses_is_refused_in_its_kind(text, kind, message):
    with pytest.raises(ServerOptionError, match=message) as refusal:
        parse(text)
    assert refusal.value.kind is kind


@pytest.mark.parametrize(
    "text",
    [
        "--num-gpus 2",
        "--num-gpus 4 --tp-size 2",
        "--num-gpus 2 --tp-size 2 --gpu-ids 0,1,2",
        "--dp 2",
        "--ulysses-degree 2",
        "--gpu-ids 0,1",
        "--enable-cfg-parallel",
        "--use-fsdp-inference",
        "--backend diffusers",
        "--disagg-role encoder",
    ],
)
def test_more_than_one_gpu_and_other_pipelines_are_unsupported(text):
    with pytest.raises(UnsupportedError):
        parse(text)


def test_as_many_ranks_as_gpus_are_understood():
    assert parse("--num-gpus 2 --tp-size 2 --gpu-ids 0,1").tp_size == 2
    assert parse("--num-gpus 1").tp_size == 1


def test_a_language_model_server_is_unsupported():
    with pytest.raises(UnsupportedError, match="diffusion servers"):
        parse_command("sglang serve --model-type llm --model-path M")


@pytest.mark.parametrize(
    "text",
    ["", "   ", "\n#only a comment\n", "ls -l", "sglang", "sglang bench", "sglang serve", "python -m http.server",
     "sglang serve --model-path 'M", "sglang serve --model-path M \\", "sglang serve --model-path M\0",
     "sglang serve --model-path \udcff", "sglang serve --model-path " + "M" * 1_000_000, "' '", "sglang serve -- M"],
)  # fmt: skip
def test_hostile_text_is_one_clear_error(text):
    with pytest.raises(FlagError) as refusal:
        parse_command(text)
    assert len(str(refusal.value)) < 600


def test_a_long_bad_value_is_not_repeated_whole():
    with pytest.raises(FlagError) as refusal:
        parse(f"--num-gpus {'9' * 100_000}")
    assert len(str(refusal.value)) < 600


def test_generate_says_what_it_makes_and_in_which_quality():
    command = parse_command("sglang generate --model-path M --width 864 --height 480 --num-frames 124 --quality exact")
    assert command.canvas == {"width": 864, "height": 480, "frames": 124}
    assert command.quality == "exact"


def test_flags_of_a_variant_are_found_whatever_the_folder_of_their_file():
    command = parse("--transformer-weights-path /data/x.safetensors --minimax-h3-adaln-online")
    assert command.has_flags(("--transformer-weights-path", "x.safetensors"))
    assert command.has_flags(("--minimax-h3-adaln-online",))
    assert not command.has_flags(("--quantization", "fp8"))
    assert command.adaln_online


def test_every_placement_option_is_known_and_every_name_is_known_once():
    names = [name for option in GENERATE_OPTIONS for name in option.names]
    assert len(names) == len(set(names))
    assert {name for option in SERVE_OPTIONS for name in option.names} >= PLACEMENT_OPTIONS
    assert {option.field for option in GENERATE_OPTIONS} >= WITHOUT_EFFECT


def test_placement_options_are_those_of_the_option_reader():
    argv = ["--component-residency", "dit=layerwise-offload", "vae=resident", "--dit-layerwise-resident-layers", "0.5"]
    ours, theirs = parse(shlex.join(argv)).options, parse_options(argv)
    assert ours.component("transformer") == theirs.component("transformer")
