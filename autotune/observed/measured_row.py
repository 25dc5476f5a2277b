"""One row of a measurement table becomes observations, or the reason why it cannot. Pure.

What a row is of comes first (server, model, cards), then what was measured, then what that depends on (request,
placements, host). No row is known by its id: the rules are about words, units and patterns, and a table of a user has
the same columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from autotune.catalog.entry import CatalogEntry
from autotune.observed.component_words import list_denoisers, list_text_encoders
from autotune.observed.csv_rows import TableRow
from autotune.observed.host_cells import StatedHost, read_host
from autotune.observed.observation import Base, Observation, Reason, Scope, Setup
from autotune.observed.placement_cells import StatedPlacement, read_placement
from autotune.observed.quantities import NUMBER, parse_count, read_number
from autotune.observed.refusal import RowRefusedError
from autotune.observed.request_cells import StatedRequest, read_request
from autotune.observed.row_figures import Figures, read_figures
from autotune.observed.row_subject import Subject, read_subject
from autotune.observed.server_changes import TILE_BATCH_MODELS, choose_recipe, list_caveats, list_moved_whole
from autotune.observed.server_names import Period, read_period
from runtime.errors import InputError

_OTHER_KERNELS = re.compile(r"torch\.compile|\bcompiled?\b|\bsage(?:attention)?\b", re.IGNORECASE)
_COUNTS_COMPARED = re.compile(
    rf"([0-9]{{1,4}}) resident layers? beats? ([0-9]{{1,4}}) \(({NUMBER}) vs ({NUMBER}) s/step\)"
)


@dataclass(frozen=True, slots=True)
class RowResult:
    """What a row gave: observations, and why figures of it were not used, one sentence each."""

    observations: tuple[Observation, ...]
    unused: tuple[str, ...]


def read_row(row: TableRow, model: str | None = None) -> RowResult:
    """The observations that ``row`` holds.

    Args:
        row: of the table.
        model: catalog name of the only model that is wanted; None for any.

    Raises:
        RowRefusedError: it cannot be compared, and why.
    """
    try:
        return _read(row, model)
    except RowRefusedError:
        raise
    except InputError as error:
        # A rule of the records themselves, such as the longest time.
        raise RowRefusedError(Reason.UNREADABLE, str(error)) from error


def _read(row: TableRow, model: str | None) -> RowResult:
    cells = row.cells
    subject = read_subject(cells, model)
    period, host = read_period(cells.get("date", "")), read_host(cells)
    figures = read_figures(subject, cells, period, host)
    request = read_request(
        subject.entry, cells, needs_size=figures.depends_on_size, needs_steps=figures.depends_on_steps
    )
    placement = read_placement(subject.entry, cells, subject.model_rest, is_of_one_use=not figures.is_of_server)
    setup, caveats = _build_setup(cells, subject, figures, request, host, period)
    moved: tuple[str, ...] = ()
    if subject.server.is_sglang and figures.is_of_server and placement.base is not Base.RESIDENT:
        moved = list_moved_whole(period, list_text_encoders(subject.entry), placement.settings)
    observation = Observation(
        name=row.name,
        where=row.where,
        setup=setup,
        settings=(*placement.settings, *moved),
        base=placement.base,
        latencies=figures.latencies.latencies,
        peak=figures.peak.peak,
        ran_out=figures.ran_out,
        cap_bytes=subject.cards.cap_bytes,
        assumed=(
            *_list_assumed(subject, figures, request, placement, host),
            *((f"before encoders streamed by default (#25517), so moved whole: {', '.join(moved)}",) if moved else ()),
        ),
        caveats=(*caveats, *figures.latencies.caveats, *figures.peak.caveats, *request.caveats),
    )
    return RowResult((observation, *_read_compared(observation, subject.entry, cells.get("notes", ""))), figures.unused)


def _build_setup(
    cells: Mapping[str, str],
    subject: Subject,
    figures: Figures,
    request: StatedRequest,
    host: StatedHost,
    period: Period,
) -> tuple[Setup, tuple[str, ...]]:
    """The set-up, and why it may differ from what ran."""
    component = cells.get("component", "")
    decodes_tiles = subject.entry.name in TILE_BATCH_MODELS and subject.server.is_sglang
    recipe, caveat = choose_recipe(period, component, decodes_tiles=decodes_tiles)
    shows_decoder = decodes_tiles and figures.depends_on_decoder
    caveats = [caveat] if caveat and shows_decoder else []
    if subject.server.is_sglang:
        decoder = f"decoder {cells.get('weight_bytes', '')}" if shows_decoder else ""
        caveats += list_caveats(subject.server.text, period, host, decoder=decoder)
    else:
        caveats.append(f"measured with {subject.server.text}: torch's own working memory, not the server's")
    kernels = _OTHER_KERNELS.search(f"{component} {subject.model_rest}")
    if kernels:
        caveats.append(f"it ran with {kernels[0]}, which is not modelled")
    forwards = cells.get("forwards_per_step", "")
    setup = Setup(
        model=subject.entry.name,
        variant=subject.variant,
        device=subject.cards.device.name,
        workload=replace(request.workload, recipe=recipe),
        forwards_per_step=parse_count(forwards, "forwards_per_step") if forwards else None,
        host_bytes=host.size_bytes,
        pins=host.pins,
        tp_size=subject.cards.tp_size,
        server=subject.server.text,
    )
    return setup, tuple(caveats)


def _list_assumed(
    subject: Subject, figures: Figures, request: StatedRequest, placement: StatedPlacement, host: StatedHost
) -> tuple[str, ...]:
    groups: tuple[Iterable[str], ...] = (
        (subject.server.assumed,),
        figures.latencies.assumed,
        figures.peak.assumed,
        request.assumed,
        placement.assumed,
        host.assumed,
    )
    return tuple(dict.fromkeys(text for group in groups for text in group if text))


def _read_compared(observation: Observation, entry: CatalogEntry, notes: str) -> tuple[Observation, ...]:
    """The run beside this one that its notes give the step of, as ``10 resident layers beat 0 (10.4 vs 11.6 s/step)``.

    It counts where the other count and the other time of that sentence are those of the row.
    """
    match = _COUNTS_COMPARED.search(notes)
    step = next((latency for latency in observation.latencies if latency.scope is Scope.STEP), None)
    if match is None or step is None or read_number(match[4]) != step.seconds:
        return ()
    counts = {f"{name}.resident={int(match[2])}": f"{name}.resident={int(match[1])}" for name in list_denoisers(entry)}
    settings = tuple(counts.get(setting, setting) for setting in observation.settings)
    if settings == observation.settings:
        return ()
    other = replace(
        observation,
        name=f"{observation.name} ({int(match[1])} resident)",
        settings=settings,
        latencies=(replace(step, seconds=read_number(match[3])),),
        peak=None,
        ran_out=False,
    )
    return (other,)
