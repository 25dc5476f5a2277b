"""Which catalog model the text of a model cell names, and what else it says. Pure.

A name counts where it begins the text and ends at a space, a bracket or the end: ``Qwen-Image-2.1`` is no
``Qwen-Image``. What follows it must be words that change neither layers nor work (a task, bf16, a component, a size);
other words mean other weights (``Turbo``, ``pruned``), and the row is refused rather than guessed at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from autotune.catalog.entry import CatalogEntry
from autotune.catalog.registry import CATALOG, find_model, list_model_names
from autotune.observed.observation import Reason
from autotune.observed.quantities import shorten
from autotune.observed.refusal import RowRefusedError

_QUANTISED = re.compile(
    r"(?<![a-z0-9])(?:[a-z]+_)?(?:fp8|mxfp[48]|nvfp4|fp4|int[48]|nf4|q[2-8](?:_[0-9a-z_]+)?|w[48](?:a(?:4|8|16))?|"
    r"[48]-?bits?|gguf|gptq|awq|bnb|bitsandbytes|quantised|quantized)(?![a-z0-9])",
    re.IGNORECASE,
)
_PLAIN_DTYPES = r"bf16|bfloat16|fp16|float16|16-?bit|dense"
_TASKS = r"fl2va|t2va|t2v|t2i"
_COMPONENTS = (
    r"(?:video|audio|image)?[ _-]?vae|vae[ -]decode(?:r)?|dit|transformer(?:_2)?|text[ _-]?encoders?(?:_2)?|te|denoiser"
)
_HARMLESS = re.compile(
    rf"(?<![\w.-])(?:{_PLAIN_DTYPES}|{_TASKS}|{_COMPONENTS}|model|pipeline|weights|resident|and|"
    r"guidance(?:_scale)?[ =]?[0-9.]+|[0-9][0-9.,]*\s?[kmg]i?b)(?![\w.-])",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[\s,;:()\[\]+/]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """A catalog model as a row names it.

    Attributes:
        entry: the model.
        rest: what the cell says besides its name.
        quantised: the word that says that weights are quantised; empty where none does.
    """

    entry: CatalogEntry
    rest: str
    quantised: str


@lru_cache(maxsize=4096)
def read_model(text: str) -> NamedModel:
    """The model that ``text`` names.

    Raises:
        RowRefusedError: none of the catalog, or one with weights of its own.
    """
    found = _match_name(text)
    if found is None:
        raise RowRefusedError(
            Reason.UNKNOWN_MODEL,
            f"the catalog has no model {shorten(text)!r}: it has {', '.join(list_model_names())}; spell the name so "
            "if it is one of them",
        )
    name, rest = found
    quantised = find_quantisation(rest)
    if not quantised:
        _check_rest(text, name, rest)
    return NamedModel(entry=find_model(name), rest=rest, quantised=quantised)


def find_quantisation(text: str) -> str:
    """The first word of ``text`` that says that weights are stored in fewer bits; empty where none does."""
    match = _QUANTISED.search(text)
    return match[0] if match else ""


def _match_name(text: str) -> tuple[str, str] | None:
    written = text.strip()
    for name, pattern in _name_patterns():
        match = pattern.match(written)
        if match:
            return name, written[match.end() :]
    return None


@lru_cache(maxsize=1)
def _name_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Every name of the catalog, the longest first, whichever of space, dash and underscore joins its parts."""
    names = [(alias, entry.name) for entry in CATALOG for alias in entry.names]
    return tuple(
        (name, re.compile(_loosen(alias) + r"(?![\w.+/-])", re.IGNORECASE))
        for alias, name in sorted(names, key=lambda pair: -len(pair[0]))
    )


def _loosen(alias: str) -> str:
    return "[-_ ]".join(re.escape(part) for part in re.split(r"[-_ ]", alias))


def _check_rest(text: str, name: str, rest: str) -> None:
    words = _SEPARATORS.sub(" ", _HARMLESS.sub(" ", rest)).strip()
    if words:
        raise RowRefusedError(
            Reason.UNKNOWN_MODEL,
            f"{shorten(text)!r} is {name} with {shorten(words)!r}, which may change its layers or its work: name the "
            "model alone if it does not",
        )
