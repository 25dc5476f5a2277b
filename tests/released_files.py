"""Names, dtypes and shapes of released checkpoints, read from the real classes on the meta device."""

import warnings

import torch

from autotune.catalog.flux import CONFIGS as FLUX
from autotune.catalog.minimax_h3 import CONFIGS as H3
from autotune.meta_weights import cast_weights

_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


def _describe(module, prefix="", dtype=None):
    if dtype is not None:
        cast_weights(module, dtype)
    return {
        prefix + name: (_NAMES[weight.dtype], tuple(weight.shape))
        for name, weight in module.named_parameters(remove_duplicate=True)
    }


def describe_h3():
    """Class and tensors of every component of MiniMax-H3: 64 encoder layers and a head, VAEs in float32."""
    from diffusers.models.autoencoders.autoencoder_kl_minimax_h3 import AutoencoderKLMiniMaxH3  # noqa: PLC0415
    from diffusers.models.autoencoders.autoencoder_kl_minimax_h3_audio import AutoencoderKLMiniMaxH3Audio  # noqa: PLC0415
    from diffusers.models.transformers.transformer_minimax_h3 import MiniMaxH3Transformer3DModel  # noqa: PLC0415
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLConfig  # noqa: PLC0415
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel  # noqa: PLC0415

    config = {**H3["text_encoder"], "text_config": {**H3["text_encoder"]["text_config"], "num_hidden_layers": 64}}
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder, transformer = Qwen3VLModel(Qwen3VLConfig(**config)), MiniMaxH3Transformer3DModel()
        video, audio = AutoencoderKLMiniMaxH3(), AutoencoderKLMiniMaxH3Audio()
    cast_weights(transformer, torch.bfloat16, keep_fp32=transformer._keep_in_fp32_modules)
    encoder_files = _describe(encoder, "model.", torch.bfloat16)
    encoder_files["lm_head.weight"] = encoder_files["model.language_model.embed_tokens.weight"]
    return {
        "text_encoder": ("Qwen3VLForConditionalGeneration", encoder_files),
        "transformer": (
            "MiniMaxH3Transformer3DModel",
            {**_describe(transformer), "rope.inv_freq": ("F32", tuple(transformer.rope.inv_freq.shape))},
        ),
        "video_vae": ("AutoencoderKLMiniMaxH3", _describe(video, dtype=torch.float32)),
        "audio_vae": ("AutoencoderKLMiniMaxH3Audio", _describe(audio, dtype=torch.float32)),
    }


def describe_flux_transformer():
    """Tensors of FLUX.1-dev's diffusion transformer in bfloat16."""
    from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel  # noqa: PLC0415

    with torch.device("meta"):
        model = FluxTransformer2DModel(**FLUX["transformer"])
    return _describe(model, dtype=torch.bfloat16)


def quantize(tensors, dtype, inside):
    """``tensors`` with every matrix below ``inside`` in ``dtype`` and a scale per row beside it."""
    quantised = {}
    for name, (old, shape) in tensors.items():
        is_matrix = len(shape) == 2 and any(name.startswith(f"{prefix}.") for prefix in inside)
        quantised[name] = (dtype if is_matrix else old, shape)
        if is_matrix:
            quantised[f"{name}_scale"] = ("F32", (shape[0], 1))
    return quantised
