import pytest

from autotune.export.sglang_options import ErrorKind, ServerOptionError, parse_options


# Case E1: a fraction below 1, a count from 1.
@pytest.mark.parametrize(
    ("value", "layers", "prefetch"),
    [("0", 60, 1), ("0.1", 60, 7), ("0.1", 38, 5), ("1.0", 60, 1), ("1", 60, 1), ("7", 60, 7), ("60", 60, 60)],
)
def test_a_prefetch_value_below_one_is_a_share_and_zero_is_one_layer(value, layers, prefetch):
    component = parse_options(["--dit-offload-prefetch-size", value]).component("transformer")
    assert component.counts(layers)[0] == prefetch


def test_a_prefetch_count_is_not_clamped_here():
    assert parse_options(["--dit-offload-prefetch-size", "99"]).component("transformer").counts(5)[0] == 99


@pytest.mark.parametrize(
    ("value", "layers", "resident"),
    [("0.5", 5, 2), ("1.0", 60, 1), ("60", 60, 60), ("999", 19, 19), ("0.5", 19, 10), ("0.01", 5, 1), ("0", 5, 0)],
)
def test_a_resident_value_below_one_is_a_share_with_bankers_rounding(value, layers, resident):
    component = parse_options(["--dit-layerwise-resident-layers", value]).component("transformer")
    assert component.counts(layers)[1] == resident


# Case E2: group words mean different sets in different options.
def test_vae_includes_the_audio_decoder_in_the_residency_option_only():
    by_residency = parse_options(["--component-residency", "vae=layerwise-offload"])
    by_list = parse_options(["--layerwise-offload-components", "vae"])
    names = ("vae", "video_vae", "audio_vae")
    assert [by_residency.component(name).mode for name in names] == ["layerwise-offload"] * 3
    assert [by_list.component(name).mode for name in names] == ["layerwise-offload", "layerwise-offload", None]


def test_text_encoder_means_all_of_them_unless_one_is_named():
    options = parse_options(["--component-residency", "text_encoder=layerwise-offload", "text_encoder_2=resident"])
    modes = [options.component(f"text_encoder{suffix}").mode for suffix in ("", "_2", "_3")]
    assert modes == ["layerwise-offload", "resident", "layerwise-offload"]


def test_connectors_belong_to_no_residency_group():
    options = parse_options(["--component-residency", "dit=component-offload"])
    assert options.component("connectors").mode is None


def test_other_options_of_the_server_are_collected_with_their_values():
    options = parse_options(["--port", "30000", "--dit-offload-prefetch-size=2", "--host", "0.0.0.0", "--webui"])
    assert options.unknown == ("--port", "30000", "--host", "0.0.0.0", "--webui")
    assert options.component("transformer").prefetch_value == 2


def test_the_last_of_a_repeated_option_wins_as_a_whole():
    argv = ["--component-residency", "dit=resident", "vae=resident", "--component-residency", "dit=component-offload"]
    options = parse_options(argv)
    assert options.component("transformer").mode == "component-offload"
    assert options.component("vae").mode is None


def test_snapshot_offload_is_a_mode_of_the_server():
    options = parse_options(["--component-residency", "vae=snapshot_offload"])
    assert options.component("vae").mode == "snapshot-offload"


@pytest.mark.parametrize(
    ("argv", "component", "mode"),
    [
        (["--dit-cpu-offload", "true"], "connectors", "component-offload"),
        (["--dit-cpu-offload", "false"], "transformer", "resident"),
        (["--dit-cpu-offload"], "transformer", "component-offload"),
        (["--dit-layerwise-offload", "false"], "transformer_2", "resident"),
        (["--vae-cpu-offload", "true", "--layerwise-offload-components", "vae"], "audio_vae", "resident"),
        (["--cpu-offload-components", "none"], "anything", "resident"),
        (["--cpu-offload-components", "vae"], "vocoder", "component-offload"),
        (["--cpu-offload-components", "dit", "vae"], "vocoder", None),
        (["--cpu-offload-components", "all"], "anything", "component-offload"),
        (["--cpu-offload-components", "text-encoder"], "text_encoder_2", "component-offload"),
        (["--cpu-offload-components", "image_encoder"], "condition_image_encoder", "component-offload"),
        (["--layerwise-offload-modules", "vocoder"], "vocoder", "layerwise-offload"),
        (["--image-encoder-cpu-offload", "true"], "image_encoder", "component-offload"),
    ],
)
def test_older_selectors_keep_their_own_group_rules(argv, component, mode):
    assert parse_options(argv).component(component).mode == mode


@pytest.mark.parametrize(
    ("argv", "kind", "rule"),
    [
        (["--dit-layerwise-residency-policy", "spiral"], ErrorKind.USAGE, "invalid choice"),
        (["--dit-layerwise-resident-layers", "many"], ErrorKind.USAGE, "invalid float value"),
        (["--component-residency"], ErrorKind.USAGE, "expected at least one argument"),
        (["stray"], ErrorKind.USAGE, "unrecognized argument 'stray'"),
        (["--component_residency", "dit=resident"], ErrorKind.USAGE, "spelled --component-residency"),
        (["--dit-cpu-offload", "maybe"], ErrorKind.VALUE, "takes true or false, got 'maybe'"),
        (["--layerwise-resident-layers", "transformer"], ErrorKind.VALUE, "component=value entries"),
        (["--layerwise-resident-layers", "3"], ErrorKind.VALUE, "component=value entries"),
        (["--dit-layerwise-resident-layers", "-1"], ErrorKind.VALUE, "must not be negative"),
        (
            ["--dit-offload-prefetch-size", "-1", "--dit-layerwise-offload", "true"],
            ErrorKind.VALUE,
            "must not be negative",
        ),
        (["--cpu-offload-components", "none", "vae"], ErrorKind.VALUE, "none cannot be combined"),
        (["--component-residency", "transformer"], ErrorKind.RESIDENCY, "takes COMPONENT=MODE"),
        (["--component-residency", "=resident"], ErrorKind.RESIDENCY, "takes COMPONENT=MODE"),
        (["--component-residency", "dit=offload"], ErrorKind.RESIDENCY, "mode must be one of resident"),
    ],
)
def test_a_line_that_the_server_refuses_is_refused_in_the_same_way(argv, kind, rule):
    with pytest.raises(ServerOptionError, match=rule) as refused:
        parse_options(argv)
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        (["--layerwise-prefetch-size", "vae=two"], "prefetch of vae is 'two'"),
        (["--layerwise-resident-layers", "vae=nan"], "resident of vae is 'nan'"),
        (["--layerwise-residency-policy", "vae=Strided"], "residency policy of vae is 'Strided'"),
        (["--layerwise-residency-lifetime", '{"vae": "ever"}'], "residency lifetime of vae is 'ever'"),
    ],
)
def test_a_bad_map_value_is_refused_for_its_component_only(argv, rule):
    options = parse_options(argv)
    assert options.component("transformer").mode is None
    with pytest.raises(ServerOptionError, match=rule) as refused:
        options.component("vae")
    assert refused.value.kind == ErrorKind.VALUE


def test_a_group_word_in_a_map_is_warned_about():
    (warning,) = parse_options(["--layerwise-resident-layers", "dit=10"]).warnings
    assert warning == "--layerwise-resident-layers matches exact component names: the entry 'dit' does nothing"


def test_a_map_entry_for_a_component_that_the_model_lacks_is_warned_about():
    options = parse_options(
        ["--layerwise-resident-layers", "vae=36", "--component-residency", "vae=resident", "x=resident"]
    )
    assert options.warnings_for(["transformer", "video_vae"]) == (
        "--layerwise-resident-layers names 'vae', which this model does not have: it does nothing",
        "--component-residency names 'x', which this model does not have",
    )


def test_an_abbreviation_is_warned_about_because_the_server_drops_its_value():
    options = parse_options(["--dit-layerwise-resident", "5"])
    assert options.component("transformer").resident_value == 0
    assert "abbreviates --dit-layerwise-resident-layers" in options.warnings[0]
