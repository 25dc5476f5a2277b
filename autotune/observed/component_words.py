"""Which components of a catalog model a text names: ``DiT``, ``text encoders CLIP+T5``, ``video VAE``. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from autotune.catalog.entry import CatalogEntry
from autotune.export.component_groups import is_dit, is_text_encoder

_DITS = ("dits?", "denoiser", "diffusion transformer")
_ENCODERS = ("te", "text[ -]?encoders?", "encoders?", "text encode")
_VAES = ("vae", "vae[ -]?decod(?:er|e|ing)", "autoencoder[a-z]*")

# The towers of models with several text encoders, or with one that has a name of its own; from the configurations and
# sources of autotune/catalog.
_TOWERS: dict[str, dict[str, str]] = {
    "FLUX.1-dev": {"clip(?:-l)?": "text_encoder", "t5(?:-xxl)?": "text_encoder_2"},
    "HunyuanVideo": {"llama(?:-3)?(?:-8b)?": "text_encoder", "clip(?:-l)?": "text_encoder_2"},
    "H3": {"qwen3-?vl(?:-32b)?": "text_encoder"},
    "Qwen-Image": {"qwen2\\.5-?vl(?:-7b)?": "text_encoder"},
    "Wan2.2-T2V-A14B": {"umt5(?:-xxl)?": "text_encoder", "t5": "text_encoder"},
    "Wan2.1-T2V-1.3B": {"umt5(?:-xxl)?": "text_encoder", "t5": "text_encoder"},
    "LTX-2": {"gemma(?:[ -]?3)?": "text_encoder"},
}


def list_denoisers(entry: CatalogEntry) -> tuple[str, ...]:
    """The diffusion transformers of a model, in order of use."""
    return tuple(name for name in entry.configs if is_dit(name))


def list_text_encoders(entry: CatalogEntry) -> tuple[str, ...]:
    """The text encoders of a model."""
    return tuple(name for name in entry.configs if is_text_encoder(name))


def find_picture_vae(entry: CatalogEntry) -> str:
    """The VAE that decodes images or video; what the server's word ``vae`` means for layerwise streaming."""
    return "video_vae" if "video_vae" in entry.configs else "vae"


def find_components(entry: CatalogEntry, text: str) -> tuple[str, ...]:
    """The components of ``entry`` that ``text`` names, in the order of the catalog; none where it names none.

    Towers that are named one by one (``text encoders CLIP+T5``) stand for the word that covers them all.
    """
    found: set[str] = set()
    patterns = _patterns(entry.name, tuple(entry.configs))
    lowered = text.casefold()
    for pattern, names in patterns.named:
        if pattern.search(lowered):
            found.update(names)
            lowered = pattern.sub(" ", lowered)
    towers = {name for pattern, name in patterns.towers if pattern.search(lowered)}
    found.update(towers)
    for pattern, names in patterns.groups:
        if pattern.search(lowered) and not (towers and set(names) == set(list_text_encoders(entry))):
            found.update(names)
    return tuple(name for name in entry.configs if name in found)


class _Patterns:
    """The words of one model: exact names first, because ``audio VAE`` is no ``VAE``."""

    def __init__(self, model: str, components: tuple[str, ...]) -> None:
        vae = "video_vae" if "video_vae" in components else "vae"
        exact = [name for name in components if "_" in name]
        self.named: list[tuple[re.Pattern[str], tuple[str, ...]]] = [
            (_word(name.replace("_", "[ _-]")), (name,)) for name in exact if name != "text_encoder"
        ]
        self.named.append((_word("text_encoder"), ("text_encoder",)))
        if "transformer_2" in components:
            self.named.append((_word("transformer"), ("transformer",)))
        self.towers = [(_word(pattern), name) for pattern, name in _TOWERS.get(model, {}).items()]
        self.groups = [
            (_word("|".join((*_DITS, "transformers?"))), tuple(name for name in components if is_dit(name))),
            (_word("|".join(_ENCODERS)), tuple(name for name in components if is_text_encoder(name))),
            (_word("|".join(_VAES)), (vae,)),
        ]
        self.groups += [(_word(name), (name,)) for name in components if name in {"connectors", "vocoder"}]


@lru_cache(maxsize=64)
def _patterns(model: str, components: tuple[str, ...]) -> _Patterns:
    return _Patterns(model, components)


def _word(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z0-9_])(?:{pattern})(?![a-z0-9_])")
