"""What a row is of: the server, the model and the cards. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.catalog.entry import CatalogEntry
from autotune.observed.component_words import find_components
from autotune.observed.gpu_names import Cards, read_cards
from autotune.observed.model_names import NamedModel, find_quantisation, read_model
from autotune.observed.observation import Reason
from autotune.observed.quantities import shorten
from autotune.observed.refusal import RowRefusedError
from autotune.observed.server_names import ServerName, read_server

_WORKING_MEMORY = re.compile(r"working memory|\bactivations?\b", re.IGNORECASE)
_SKIPS_WORK = re.compile(r"tea-?cache|cache-?dit|(?:first-?block-?|fb-?)cache|auto-resident", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a row is of.

    Attributes:
        entry: the model.
        variant: of it, where the row states one that the catalog has.
        server: what was measured.
        cards: what it ran on.
        named: components that the component cell names, else the model cell; none where neither does.
        model_rest: what the model cell says besides the name.
        working_memory_of: the component whose activations alone were observed; empty for a whole server.
    """

    entry: CatalogEntry
    variant: str
    server: ServerName
    cards: Cards
    named: tuple[str, ...]
    model_rest: str
    working_memory_of: str


def read_subject(cells: Mapping[str, str], model: str | None) -> Subject:
    """What the row with ``cells`` is of.

    A component's working memory is torch's own, whatever program called it; all else must be of SGLang.

    Args:
        cells: of the row, by column.
        model: catalog name of the only model that is wanted; None for any.

    Raises:
        RowRefusedError: it is of something that cannot be compared.
    """
    component = cells.get("component", "")
    server = read_server(
        server=cells.get("server", ""),
        source=cells.get("source", ""),
        component=component,
        model=cells.get("model", ""),
        notes=cells.get("notes", ""),
        when=cells.get("date", ""),
    )
    is_working_memory = bool(_WORKING_MEMORY.search(component))
    if not server.is_sglang and server.text and not is_working_memory:
        raise RowRefusedError(
            Reason.OTHER_ENGINE,
            f"it is of {server.text}, which moves weights in its own way; only SGLang-diffusion is simulated",
        )
    named_model = read_model(cells["model"])
    entry = named_model.entry
    variant = _read_variant(cells, named_model)
    if model is not None and entry.name != model:
        raise RowRefusedError(
            Reason.UNKNOWN_MODEL, f"it is of {entry.name}, and only {model} is wanted: ask for {entry.name} to use it"
        )
    cards = read_cards(
        gpu=cells["gpu"],
        vram=cells.get("vram_gib", ""),
        component=component,
        tp=cells.get("tp_size", ""),
        peak=f"{cells.get('peak_vram', '')} {cells.get('peak_unit', '')}",
        makes_images=entry.default_workload.frames == 1,
    )
    if not server.text:
        raise RowRefusedError(
            Reason.OTHER_ENGINE,
            f"nothing says which server {shorten(cells.get('source', ''))!r} measured: write it into a column "
            "`server`, e.g. sglang 0.5.23",
        )
    _check_work(component, cells.get("oom", ""))
    named = find_components(entry, component) or find_components(entry, named_model.rest)
    return Subject(
        entry=entry,
        variant=variant,
        server=server,
        cards=cards,
        named=named,
        model_rest=named_model.rest,
        working_memory_of=_choose_one(named) if is_working_memory else "",
    )


def _read_variant(cells: Mapping[str, str], model: NamedModel) -> str:
    typed = cells.get("variant", "")
    if typed:
        known = {variant.name for variant in model.entry.variants}
        if typed.casefold() not in known:
            raise RowRefusedError(
                Reason.NOT_EXPRESSIBLE,
                f"{model.entry.name} has no variant {shorten(typed)!r}: it has {', '.join(sorted(known)) or 'none'}",
            )
        return typed.casefold()
    quantised = model.quantised or find_quantisation(cells.get("component", ""))
    if quantised:
        raise RowRefusedError(
            Reason.QUANTISED,
            f"its weights are quantised ({quantised}), and the way differs by server and checkpoint: name a variant of "
            "the catalog in a column `variant` if it is one",
        )
    return ""


def _check_work(component: str, oom: str) -> None:
    skips = _SKIPS_WORK.search(component)
    if skips:
        raise RowRefusedError(
            Reason.NOT_EXPRESSIBLE, f"{skips[0]} changes what is computed or placed from run to run: measure without it"
        )
    if re.search(r"\bhost\b", oom, re.IGNORECASE):
        raise RowRefusedError(
            Reason.NOT_EXPRESSIBLE, f"it ran out of host memory ({shorten(oom)!r}), not of the card's"
        )
    if re.search(r"\bload", oom, re.IGNORECASE):
        raise RowRefusedError(
            Reason.NOT_EXPRESSIBLE, f"it ran out while loading ({shorten(oom)!r}), which is not modelled"
        )


def _choose_one(named: tuple[str, ...]) -> str:
    if len(named) != 1:
        raise RowRefusedError(
            Reason.NOT_EXPRESSIBLE, "working memory is of one component: name it in the component or the model cell"
        )
    return named[0]
