"""What pinning host memory cost, and where it was refused. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CeilingKind(StrEnum):
    """What a refusal was about."""

    TOTAL = "total"
    SINGLE_CALL = "single-call"
    PASSING = "passing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRequest:
    """One call: its size and how long it took; ``refusal`` is empty where it was granted."""

    size_bytes: int
    duration_s: float
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinCeiling:
    """Where pins were refused.

    Attributes:
        kind: of the total, of a single call, or passing.
        granted_bytes: for ``total``, what was pinned in all when even the smallest request was refused; for
            ``single-call``, the largest request that was granted while smaller ones filled the total that the refused
            one would have made (larger ones may have been granted before); for ``passing``, the request itself.
        refused_bytes: for ``total``, that sum and the last request that was refused while filling; for
            ``single-call``, the request whose refusal began the filling, though smaller ones may have been refused
            during it; for ``passing``, the request itself.
        reason: what the driver said.
    """

    kind: CeilingKind
    granted_bytes: int
    refused_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PinCost:
    """What pinning cost on this machine.

    Attributes:
        pinning: how the device pins.
        requested_bytes: the target.
        obtained_bytes: what was pinned at the most.
        requests: every call, in order.
        ceilings: what stood in the way; empty when the target was reached without a refusal.
        s_per_byte: time of the granted calls per byte; None when none was granted.
        locked_per_byte: growth of the process's locked memory per pinned byte; None where the system does not tell.
        extra_resident_per_byte: memory that became resident beside the buffer itself, per pinned byte; 0 where exact
            sizes are registered. None as above.
    """

    pinning: str
    requested_bytes: int
    obtained_bytes: int
    requests: tuple[PinRequest, ...]
    ceilings: tuple[PinCeiling, ...]
    s_per_byte: float | None
    locked_per_byte: float | None
    extra_resident_per_byte: float | None
