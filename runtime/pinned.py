"""What pinning really locks: torch's caching allocator rounds every block up, exact-size registration does not.

Source: pytorch issues 95823 and 150517 (five blocks of 1.20 GiB lock 10.01 GiB); the server and this project's own
runtime register memory of the exact size, so the rounded figure holds only where torch's ``pin_memory`` is called.
"""

from __future__ import annotations

from collections.abc import Iterable


def rounded_pin_bytes(size_bytes: int) -> int:
    """What torch's caching pinned allocator locks for one block: the next power of two; 0 for none."""
    return 1 << (size_bytes - 1).bit_length() if size_bytes > 0 else 0


def count_pins(layer_bytes: Iterable[int], spendable_bytes: int, *, rounded: bool) -> int:
    """How many of the layers are pinned when they ask in order and one that does not fit is skipped.

    Args:
        layer_bytes: size of each layer, in the order in which they ask.
        spendable_bytes: what may be locked in all.
        rounded: whether torch's caching allocator makes the blocks; False for exact-size registration.
    """
    left_bytes = spendable_bytes
    pins = 0
    for size_bytes in layer_bytes:
        locked_bytes = rounded_pin_bytes(size_bytes) if rounded else size_bytes
        if locked_bytes <= left_bytes:
            left_bytes -= locked_bytes
            pins += 1
    return pins
