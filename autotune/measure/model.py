"""Measures a model component by component, and puts the seconds where the planner looks for them. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from torch import nn

from autotune.catalog.built_component import BuiltComponent, CapturedComponent, ComponentBuilder
from autotune.measure.around_run import describe_around, measure_around
from autotune.measure.piece_capture import CapturedPiece, CapturedRun, capture_run
from autotune.measure.piece_run import run_piece
from autotune.measure.run_settings import RunSettings
from autotune.measurements.achieved import BALANCE_FLOPS_PER_BYTE
from autotune.measurements.model_profile import MeasuredPiece
from autotune.measurements.records import PieceRecord
from autotune.meta_weights import HOST_TABLE_MIN_BYTES
from autotune.model_facts import ModelFacts
from autotune.work import Work
from runtime.errors import InputError

Progress = Callable[[str, float], None]
"""Told what is measured now, and which share of all the work has been done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredComponent:
    """One component: its use with seconds in place of counts, and the records that they come from."""

    captured: CapturedComponent
    pieces: tuple[MeasuredPiece, ...]


def measure_component(
    build: ComponentBuilder, settings: RunSettings, notify: Progress = lambda *_: None
) -> MeasuredComponent:
    """Measure every distinct piece of one component, one after the other.

    Args:
        build: makes the component on the meta device; called anew for the capture, for the pieces and for the rest.
        settings: where and how; records go to the bench's keeper, and earlier ones come from there.
        notify: see ``Progress``.
    """
    keeper = settings.bench.keeper
    built = build()
    run = capture_run(built)
    component = built.spec.name
    fresh = build()
    distinct = _list_distinct(run)
    total = sum(_expected_effort(piece) for piece in distinct.values()) + _bytes_effort(run.around)
    done = 0.0
    records: dict[str, PieceRecord] = {}
    for digest, piece in distinct.items():
        notify(f"{component} {piece.place.name}", done / total if total else 0.0)
        known = keeper.recall(PieceRecord, digest)
        if known is None:
            module = fresh.module.get_submodule(piece.place.path)
            known = _run_or_skip(built, piece, module, settings)
            keeper.remember(digest, known)
        # What computes alike may have been measured in another component, or at another place.
        records[digest] = replace(known, component=component, name=piece.place.name)
        done += _expected_effort(piece)
    notify(f"{component} around its layers", done / total if total else 0.0)
    around_key = describe_around(component, run)
    around = keeper.recall(PieceRecord, around_key)
    if around is None:
        around = measure_around(build(), run, settings)
        keeper.remember(around_key, around)
    return MeasuredComponent(
        captured=_finish(built, run, records, around),
        pieces=tuple(_list_pieces(built, run, records, around)),
    )


def put_into_facts(facts: ModelFacts, measured: Mapping[str, CapturedComponent]) -> ModelFacts:
    """``facts``, counted on the meta device, with the uses of ``measured`` components as they were measured.

    Raises:
        InputError: a component's use is not the one that the facts have: they are of another request.
    """
    work = list(facts.work)
    for index, use in enumerate(facts.request.uses):
        found = measured.get(use.component)
        if found is None or not use.groups:
            continue
        if found.use.groups != use.groups:
            raise InputError(
                f"{use.component} was measured for other passes than the facts of {facts.model.name} have: both must "
                "be of one request"
            )
        work[index] = replace(found.work, reserved_ratio=work[index].reserved_ratio)
    return replace(facts, work=tuple(work), source="measured" if measured else facts.source)


def _list_distinct(run: CapturedRun) -> dict[str, CapturedPiece]:
    found: dict[str, CapturedPiece] = {}
    for piece in run.pieces:
        found.setdefault(piece.digest, piece)
    return found


def _run_or_skip(built: BuiltComponent, piece: CapturedPiece, module: nn.Module, settings: RunSettings) -> PieceRecord:
    if _waits_on_host(built, piece, module):
        return PieceRecord(
            key=piece.digest,
            component=built.spec.name,
            name=piece.place.name,
            class_name=piece.class_name,
            inputs=piece.describe_inputs(),
            weight_bytes=sum(int(weight.nbytes) for weight in module.parameters()),
            outcome="skipped",
            note="the server keeps this table in host memory while the component streams; its lookup is estimated",
        )
    return run_piece(built.spec.name, piece, module, settings)


def _waits_on_host(built: BuiltComponent, piece: CapturedPiece, module: nn.Module) -> bool:
    if not built.spec.host_table_bytes or not isinstance(module, nn.Embedding):
        return False
    return piece.place.stack is None and int(module.weight.nbytes) >= HOST_TABLE_MIN_BYTES


def _finish(
    built: BuiltComponent, run: CapturedRun, records: Mapping[str, PieceRecord], around: PieceRecord
) -> CapturedComponent:
    """The component's use, each piece with its measured seconds where there are any, else with its counts."""
    rest = Work(measured_s=around.timing.median_s) if around.timing is not None else run.around
    peak_bytes = estimate_activation_bytes(run, records)
    counted = replace(run, around=rest, activation_bytes=peak_bytes)
    layer_counts = {stack: len(layers) for stack, layers in built.stacks.items()}

    def cost(piece: CapturedPiece) -> Work:
        timing = records[piece.digest].timing
        return piece.work if timing is None else Work(measured_s=timing.median_s)

    return built.finish(counted.count_forward(layer_counts, cost))


def estimate_activation_bytes(run: CapturedRun, records: Mapping[str, PieceRecord]) -> int:
    """The peak of live activations, from what each piece was measured to allocate.

    What is alive around a piece is known from the meta device; what the piece adds to it, from the device's allocator.
    The graph's own peak is moved by as much as its highest piece differs, and no piece may reach above the result.
    """
    highest = max(run.pieces, key=lambda piece: piece.entry_bytes + piece.rise_bytes, default=None)
    if highest is None:
        return run.activation_bytes
    rises = {piece.digest: records[piece.digest].rise_bytes for piece in run.pieces}
    reached = [
        piece.entry_bytes + (piece.rise_bytes if rises[piece.digest] is None else int(rises[piece.digest] or 0))
        for piece in run.pieces
    ]
    measured = rises[highest.digest]
    moved = run.activation_bytes + (0 if measured is None else measured - highest.rise_bytes)
    return max(*reached, moved, 0)


def _list_pieces(
    built: BuiltComponent, run: CapturedRun, records: Mapping[str, PieceRecord], around: PieceRecord
) -> list[MeasuredPiece]:
    passes = _count_passes(run)
    places: dict[str, list[str]] = {}
    calls: dict[str, int] = {}
    for piece in run.pieces:
        places.setdefault(piece.digest, []).append(piece.place.name)
        calls[piece.digest] = calls.get(piece.digest, 0) + piece.calls
    found = [
        MeasuredPiece(record=record, places=tuple(dict.fromkeys(places[key])), calls=calls[key], passes=passes)
        for key, record in records.items()
    ]
    return [*found, MeasuredPiece(record=around, places=(around.name,), calls=1, passes=passes)]


def _count_passes(run: CapturedRun) -> int:
    """Passes of the captured run: the most calls that one layer had."""
    calls: dict[str, int] = {}
    for piece in run.pieces:
        if piece.place.stack is not None:
            calls[piece.place.path] = calls.get(piece.place.path, 0) + piece.calls
    return max(calls.values(), default=1)


def _expected_effort(piece: CapturedPiece) -> float:
    return _bytes_effort(piece.work) + piece.work.flops / BALANCE_FLOPS_PER_BYTE


def _bytes_effort(work: Work) -> float:
    return work.matmul_bytes + work.other_bytes
