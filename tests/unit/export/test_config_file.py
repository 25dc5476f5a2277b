import json

import pytest

from autotune.export.option_values import ErrorKind, ServerOptionError
from autotune.export.server_command import parse_command
from runtime.errors import FlagError

YAML = """
model_path: org/model
performance_mode: memory
num_gpus: 1
component_residency: {dit: layerwise-offload, vae: resident}
layerwise_resident_layers:
  transformer: 14
layerwise_offload_components: [text_encoder]
dit_offload_prefetch_size: 2
pin_cpu_memory: false
colour: blue
vae_config: {use_tiling: true}
port: null
"""


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="serve.yaml"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write_file


def test_a_file_says_what_the_command_line_does_not(write):
    command = parse_command(f"sglang serve --config {write(YAML)} --performance-mode auto")
    transformer = command.options.component("transformer")
    assert (command.model_path, command.performance_mode, command.pin_cpu_memory) == ("org/model", "auto", False)
    assert (transformer.mode, transformer.prefetch_value, transformer.resident_value) == ("layerwise-offload", 2, 14)
    assert command.options.component("text_encoder").mode == "layerwise-offload"
    assert command.unknown == ("colour of the configuration file",)
    assert command.unmodelled == ("vae_config of the configuration file",)


def test_json_means_the_same_as_yaml(write):
    document = {"model_path": "M", "component_residency": ["dit=resident", "vae=component-offload"]}
    command = parse_command(f"sglang serve --config={write(document, 'serve.json')}")
    assert command.options.component("transformer").mode == "resident"


def test_keys_with_hyphens_are_passed_over_as_by_the_server(write):
    command = parse_command(f"sglang serve --model-path M --config {write({'num-gpus': 4}, 'a.json')}")
    assert command.unknown == ("num-gpus of the configuration file",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must hold option names"),
        ("[1, 2]", "must hold option names"),
        ("1: 2", "must hold option names"),
        ("a: [", "damaged"),
        ("a: " + "[" * 20_000, "damaged"),
        ("pin_cpu_memory: 'false'", "without quotes"),
        ("num_gpus: many", "must be a number"),
        ("num_gpus: [2]", "not a list"),
        ("num_gpus: {a: 1}", "not a map"),
        ("layerwise_offload_components: {dit: 1}", "not a map"),
        ("num_gpus: 0x" + "f" * 5000, "ordinary size"),
        ("layerwise_resident_layers: {a: [1]}", "must hold text or numbers"),
        ("decoder_tp: 2", "replaced by decoder_sp"),
        ("component_residency: {dit: nowhere}", "mode must be one of"),
        ("x: " + "y" * 300_000, "more than"),
        ("a: &a [x,x]\nb: &b [*a,*a]\ncomponent_residency: [*b,*b]", "must hold text or numbers"),
    ],
)
def test_a_damaged_file_is_one_clear_error(write, content, message):
    with pytest.raises(FlagError, match=message):
        parse_command(f"sglang serve --model-path M --config {write(content)}")


def test_nested_aliases_are_never_written_out(write):
    levels = [f"a{level}: &a{level} {{x: *a{level - 1}, y: *a{level - 1}}}" for level in range(1, 40)]
    content = "\n".join(["a0: &a0 {x: 1}", *levels, "cache_dit_config: *a39", "model_path: M"])
    assert "--cache-dit-config {...}" in parse_command(f"sglang serve --config {write(content)}").unmodelled


def test_a_file_that_is_none_is_refused_as_by_the_server(tmp_path):
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    for name in (folder, tmp_path / "missing.json", tmp_path / "serve.toml", tmp_path):
        with pytest.raises(ServerOptionError) as refusal:
            parse_command(f"sglang serve --model-path M --config {name}")
        assert refusal.value.kind is ErrorKind.VALUE


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FlagError, match="damaged"):
        parse_command(f"sglang serve --model-path M --config {tmp_path / 'a.yaml'}")
