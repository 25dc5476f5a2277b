"""What the server did otherwise when a row was measured, by date, and how a row is read because of it. Pure.

The simulated engine is SGLang-diffusion 0.5.23. Dates: pull request #25517 of 2026-05-17 (encoders stream by default,
before which they were moved whole), #35813 (aliased slots of mapped layers), #35816
(pins by layer) and #35882 (courier thread for mapped layers), all of 2026-08-21, and the files of the releases. The
decoder of MiniMax-H3 held in fp16 came in the days after them, its batched tiles in September (release 0.5.21 has
them).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from autotune.catalog.minimax_h3 import H3
from autotune.observed.host_cells import StatedHost
from autotune.observed.server_names import Period
from autotune.workload import Recipe
from runtime.residency import Mode

TILE_BATCH_MODELS = frozenset({H3.name})
"""Models whose decoder runs as many tiles in a pass as the quality recipe says, with weights held in fp16."""

_SIMULATED = "0.5.23"
_ENCODERS_STREAM = date(2026, 5, 17)
_PINS_BY_LAYER = date(2026, 8, 21)
_READS_AHEAD = date(2026, 8, 22)
"""The day after #35882."""
_BATCHED_TILES = date(2026, 9, 1)
_MAIN_DATE = date(2026, 10, 15)
"""Release 0.5.22; what is later is near enough to 0.5.23."""

_INVALID = (
    "times of mapped weights from before 2026-08-21 are invalid: slots were shared by mistake (sglang #35813), and the "
    "retraction is public (#35734); measure again with a later server"
)


def find_invalid_times(period: Period, host: StatedHost) -> str:
    """Why the times of a row mean nothing; empty where they do."""
    return _INVALID if host.is_mapped and period.is_before(_PINS_BY_LAYER) else ""


def list_moved_whole(period: Period, encoders: Sequence[str], settings: Sequence[str]) -> tuple[str, ...]:
    """Settings of the text encoders that a row does not place where the server then moved them whole by default."""
    if not period.is_before(_ENCODERS_STREAM):
        return ()
    placed = {setting.partition(".")[0] for setting in settings}
    return tuple(f"{name}.mode={Mode.COMPONENT_OFFLOAD}" for name in encoders if name not in placed)


def choose_recipe(period: Period, component: str, *, decodes_tiles: bool) -> tuple[Recipe, str]:
    """The quality recipe whose tiles per pass are nearest to what ran, and a caveat; empty for none.

    Args:
        period: when it was measured.
        component: the cell, which may name the server's memory mode; that mode decodes tile by tile.
        decodes_tiles: whether the recipe changes the decode of the model.
    """
    if not decodes_tiles:
        return Recipe.DEFAULT, ""
    if "memory mode" in component.casefold():
        return Recipe.EXACT, ""
    if period.is_before(_BATCHED_TILES):
        return Recipe.EXACT, "before the decoder's tiles were batched: one tile a pass is simulated"
    if period.may_be_before(_BATCHED_TILES):
        return Recipe.DEFAULT, "the decoder's tiles may not have been batched yet"
    return Recipe.DEFAULT, ""


def list_caveats(server: str, period: Period, host: StatedHost, *, decoder: str) -> tuple[str, ...]:
    """Why a run of SGLang may differ from the simulated engine, one sentence each.

    Args:
        server: name and version, as far as stated.
        period: when it was measured.
        host: where its weights waited.
        decoder: what the row says of weights, where a decoder that 0.5.23 holds in fp16 matters to what was observed;
            empty elsewhere.
    """
    if _SIMULATED in server.split():
        return ()
    caveats: list[str] = []
    if period.first is None:
        caveats.append(f"the row says {server!r} and no date: it may differ from {_SIMULATED}, which is simulated")
    elif period.may_be_before(_MAIN_DATE):
        caveats.append(f"an older server than {_SIMULATED}, which is simulated")
    if (host.size_bytes is not None or not host.pins) and period.is_before(_PINS_BY_LAYER):
        caveats.append("before pins by layer: a component was pinned whole or not at all")
    if host.is_all_mapped and period.is_before(_READS_AHEAD):
        caveats.append("mapped layers were copied synchronously; the simulated server reads ahead in a courier thread")
    if decoder and period.may_be_before(_BATCHED_TILES) and not re.search(r"\b(?:fp16|float16)\b", decoder):
        caveats.append("the decoder's weights may have been float32, twice what the simulated server holds in fp16")
    return tuple(caveats)
