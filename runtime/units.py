"""Sizes, rates and times: parsed from what people type, printed with their unit.

The rule for a bare letter: ``24G`` means ``24GiB`` (2^30), as in every GPU tool that prints memory, while ``24GB`` is
24 * 10^9 bytes. A lower-case ``b`` after an upper-case prefix (``24Gb``) reads as bits elsewhere and is refused.
"""

from __future__ import annotations

import math
import re

from runtime.errors import UnitError

KIB = 1024
MIB = 1024**2
GIB = 1024**3

# Sizes are added up in 64-bit integers; an eighth of their range leaves room for sums.
MAX_BYTES = 2**60

_BYTES_PER_UNIT: dict[str, int] = {
    "": 1,
    "b": 1,
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", start=1)},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", start=1)},
    **{letter: 1024**power for power, letter in enumerate("kmgtp", start=1)},
}
_SIZE = re.compile(r"\s*(?P<number>[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})\s*(?P<unit>[a-zA-Z]*)\s*")
_EXAMPLES = "write it like 24GiB (2^30), 24GB (10^9), 24576MiB or plain bytes"


def parse_bytes(text: str) -> int:
    """Return the whole number of bytes that ``text`` names.

    Raises:
        UnitError: not a size, zero, negative, not finite, bits, or an unknown unit.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UnitError(f"{text!r} is not a size: {_EXAMPLES}")
    unit = match["unit"]
    if re.fullmatch(r"[KMGTP]i?b", unit):
        raise UnitError(f"{text!r} is ambiguous: {unit!r} reads as bits in some tools; {_EXAMPLES}")
    try:
        per_unit = _BYTES_PER_UNIT[unit.lower()]
    except KeyError:
        raise UnitError(f"{text!r} has the unknown unit {unit!r}: {_EXAMPLES}") from None
    number: str = match["number"]
    size = int(number) * per_unit if number.isdigit() else round(float(number) * per_unit)
    if size > MAX_BYTES:
        raise UnitError(f"{text!r} is more than 1 EiB, which no machine has: {_EXAMPLES}")
    if size <= 0:
        raise UnitError(f"{text!r} is {size} bytes: a size must be at least one byte; {_EXAMPLES}")
    return size


def parse_rate(text: str) -> float:
    """Return bytes per second for a rate such as ``25GB/s``; the ``/s`` may be left out, the unit may not.

    Raises:
        UnitError: not a rate, or without a unit: a bare ``25`` could mean anything.
    """
    amount = text.strip().removesuffix("/s").rstrip()
    try:
        if amount[-1:].isdigit():
            raise UnitError(f"{text!r} has no unit")
        return float(parse_bytes(amount))
    except UnitError:
        raise UnitError(f"{text!r} is not a rate: write it like 25GB/s or 23.3GiB/s") from None


def format_gib(size_bytes: float, digits: int = 2) -> str:
    """``size_bytes`` in GiB with its unit, for people."""
    return f"{size_bytes / GIB:,.{digits}f} GiB"


def format_size(size_bytes: float) -> str:
    """``size_bytes`` in GiB, MiB, KiB or bytes, whichever suits it: sizes of very different kinds side by side."""
    # What one unit would round up to 1,024 belongs to the next.
    if size_bytes >= GIB - MIB / 20:
        return format_gib(size_bytes)
    if size_bytes >= MIB - KIB / 20:
        return f"{size_bytes / MIB:,.1f} MiB"
    return f"{size_bytes / KIB:,.1f} KiB" if size_bytes >= KIB else f"{size_bytes:,.0f} bytes"


def format_seconds(time_s: float) -> str:
    """``time_s`` with three or more significant digits and the unit that suits its size."""
    if not math.isfinite(time_s):
        return "unknown"
    if abs(time_s) < 1e-7:
        return "0 s"
    if time_s >= 60:
        return f"{time_s:,.1f} s"
    # From here on three digits of milliseconds would round up to a second.
    if time_s >= 0.9995:
        return f"{time_s:.2f} s"
    return f"{time_s * 1e3:.3g} ms"


def format_signed(ratio: float) -> str:
    """A share with its sign as a percentage of one digit: ``+3.2 %``."""
    return f"{100 * ratio:+.1f} %"


def format_percent(ratio: float) -> str:
    """A share 0..1 as a percentage; shares below one percent keep two digits."""
    percent = ratio * 100
    return f"{percent:.2g} %" if 0 < abs(percent) < 1 else f"{percent:.1f} %"
