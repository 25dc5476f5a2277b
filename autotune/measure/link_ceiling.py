"""What share of a link's physical ceiling a measured rate is, in words. Pure."""

from __future__ import annotations

import math

from runtime.units import format_percent

# Transfers per second of one lane and the share of them that carries data: 8 of 10 bits in generations 1 and 2, 128 of
# 130 in 3 to 5, 242 of 256 bytes of a flit in 6 (PCI Express Base Specification, revision 6.0). Headers come on top.
_LANES = {
    1: (2.5e9, 8 / 10),
    2: (5e9, 8 / 10),
    3: (8e9, 128 / 130),
    4: (16e9, 128 / 130),
    5: (32e9, 128 / 130),
    6: (64e9, 242 / 256),
}
_ROUNDING_RATIO = 1e-3


def derive_pcie_bytes_per_s(generation: int, lanes: int) -> float | None:
    """What a link carries one way; None for a generation that is not known here."""
    if generation not in _LANES:
        return None
    transfers_per_s, data_ratio = _LANES[generation]
    return transfers_per_s * data_ratio * lanes / 8


def describe_share(bytes_per_s: float, ceiling_bytes_per_s: float | None, link: str) -> str:
    """One sentence about ``bytes_per_s``, as measured, beside the ceiling of ``link``.

    Args:
        bytes_per_s: of one direction; infinite where copies take no time.
        ceiling_bytes_per_s: what the link can carry one way, without its protocol's overhead; None where unknown.
        link: such as ``PCIe gen4 x16``.
    """
    if math.isinf(bytes_per_s):
        return "copies take no time here: there is no link to measure"
    rate = f"{bytes_per_s / 1e9:.1f} GB/s"
    if ceiling_bytes_per_s is None:
        return f"{rate}; what the link can carry at the most is unknown"
    share = bytes_per_s / ceiling_bytes_per_s
    text = f"{rate} are {format_percent(share)} of the {ceiling_bytes_per_s / 1e9:.1f} GB/s that {link} carries"
    if share > 1 + _ROUNDING_RATIO:
        return f"{text}: more than there can be, so the copies took another link than PCIe"
    return text
