import pytest

from autotune.catalog.registry import find_model
from autotune.observed.component_words import find_components
from autotune.observed.model_names import find_quantisation, read_model
from autotune.observed.observation import Reason
from autotune.observed.refusal import RowRefusedError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MiniMax-H3 FL2VA", "H3"),
        ("MiniMax-H3 BF16 FL2VA", "H3"),
        ("MiniMaxAI/MiniMax-H3", "H3"),
        ("minimax h3 bf16 66.3 GB", "H3"),
        ("MiniMax-H3 video VAE", "H3"),
        ("Wan2.2-T2V-A14B", "Wan2.2-T2V-A14B"),
        ("Qwen-Image VAE", "Qwen-Image"),
        ("Z-Image-Turbo", "Z-Image-Turbo"),
        ("FLUX.1 transformer", "FLUX.1-dev"),
        ("FLUX.1 (guidance 3.5)", "FLUX.1-dev"),
    ],
)
def test_model_is_found_by_the_name_that_begins_the_cell(text, name):
    assert read_model(text).entry.name == name


@pytest.mark.parametrize(
    "text",
    [
        "Qwen-Image-2.1",
        "Qwen-Image-Edit",
        "Wan2.2-TI2V-5B",
        "MOVA-360p",
        "HunyuanVideo-1.5",
        "LTX-2.3 22B",
        "FastH3",
        "",
    ],
)
def test_relative_of_a_catalog_model_is_another_model(text):
    with pytest.raises(RowRefusedError, match="no model") as caught:
        read_model(text)
    assert caught.value.reason is Reason.UNKNOWN_MODEL


@pytest.mark.parametrize("text", ["MiniMax-H3 Turbo merged BF16", "MiniMax-H3 Ref2VA", "Qwen-Image LoRA training"])
def test_words_that_may_mean_other_weights_are_not_passed_over(text):
    with pytest.raises(RowRefusedError, match="may change its layers"):
        read_model(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("MiniMax-H3 FL2VA FP8", "FP8"),
        ("MiniMax-H3 kitchen_int8", "kitchen_int8"),
        ("MiniMax-H3 FL2VA (online FP8 DiT, turbo LoRA, Sage)", "FP8"),
        ("FLUX.1-dev nf4", "nf4"),
        ("Qwen-Image Q4_K", "Q4_K"),
        ("H3 W4A8", "W4A8"),
    ],
)
def test_quantised_weights_are_named(text, word):
    assert read_model(text).quantised == word


def test_full_precision_is_not_taken_for_quantised():
    assert find_quantisation("BF16 DiT, fp16 VAE, float32, 50 blocks of 4 GPUs") == ""


@pytest.mark.parametrize(
    ("model", "text", "components"),
    [
        ("H3", "DiT+TE+VAE layerwise", ("text_encoder", "transformer", "video_vae")),
        ("H3", "video VAE streamed 36 blocks", ("video_vae",)),
        ("H3", "audio VAE", ("audio_vae",)),
        ("Wan2.2-T2V-A14B", "DiT resident", ("transformer", "transformer_2")),
        ("Wan2.2-T2V-A14B", "transformer", ("transformer",)),
        ("FLUX.1-dev", "text encoders CLIP+T5", ("text_encoder", "text_encoder_2")),
        ("FLUX.1-dev", "text encoders", ("text_encoder", "text_encoder_2")),
        ("FLUX.1-dev", "text_encoder", ("text_encoder",)),
        ("FLUX.1-dev", "CLIP-only", ("text_encoder",)),
        ("FLUX.1-dev", "VAE decode AutoencoderKL", ("vae",)),
        ("Qwen-Image", "all resident", ()),
    ],
)
def test_components_are_found_by_the_words_people_use(model, text, components):
    assert set(find_components(find_model(model), text)) == set(components)
