"""What rates the measured pieces of a model reached, for work of the same model that was not measured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autotune.measurements.model_profile import MeasuredPiece
from autotune.measurements.records import PieceRecord

BALANCE_FLOPS_PER_BYTE = 100.0
"""Above it a piece counts as bound by arithmetic, below it by memory. Less than the ratio of both datasheet rates of
present cards (RTX 4090: 165 TFLOP/s bf16 to 1.0 TB/s; H200: 989 to 4.8), as products reach less of theirs."""


def derive_flops_per_s(pieces: Iterable[MeasuredPiece], dtypes: Mapping[str, str]) -> dict[str, float]:
    """Operations per second by dtype, over all pieces that arithmetic binds; else the most that any piece reached.

    Args:
        pieces: of a profile; those that were not measured say nothing.
        dtypes: component -> dtype of its matrix products.
    """
    by_dtype: dict[str, list[MeasuredPiece]] = {}
    for piece in pieces:
        if _seconds(piece.record) and piece.record.flops:
            by_dtype.setdefault(dtypes[piece.record.component], []).append(piece)
    found = {}
    for dtype, measured in by_dtype.items():
        bound = [piece for piece in measured if is_bound_by_arithmetic(piece.record)]
        if bound:
            total = sum(piece.calls * piece.record.flops for piece in bound)
            found[dtype] = total / sum(piece.calls * _seconds(piece.record) for piece in bound)
        else:
            found[dtype] = max(piece.record.flops / _seconds(piece.record) for piece in measured)
    return found


def derive_memory_bytes_per_s(pieces: Iterable[MeasuredPiece]) -> float:
    """Bytes per second over all pieces that memory binds; else the most that any piece reached; 0 when none says."""
    measured = [piece for piece in pieces if _seconds(piece.record) and piece.record.moved_bytes]
    bound = [piece for piece in measured if not is_bound_by_arithmetic(piece.record)]
    if bound:
        total = sum(piece.calls * piece.record.moved_bytes for piece in bound)
        return total / sum(piece.calls * _seconds(piece.record) for piece in bound)
    return max((piece.record.moved_bytes / _seconds(piece.record) for piece in measured), default=0.0)


def is_bound_by_arithmetic(record: PieceRecord) -> bool:
    """Whether a piece makes so many operations per byte that its arithmetic decides; see ``BALANCE_FLOPS_PER_BYTE``."""
    return record.flops > BALANCE_FLOPS_PER_BYTE * record.moved_bytes


def _seconds(record: PieceRecord) -> float:
    return record.timing.median_s if record.timing is not None else 0.0
