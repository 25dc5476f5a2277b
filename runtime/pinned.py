"""What pinning really locks: torch's caching allocator rounds every block up, exact-size registration does not.

Source: pytorch issues 95823 and 150517 (five blocks of 1.20 GiB lock 10.01 GiB); the server and this project's own
runtime register memory of the exact size, so the rounded figure holds only where torch's ``pin_memory`` is called.
"""

from __future__ import annotations


def rounded_pin_bytes(size_bytes: int) -> int:
    """What torch's caching pinned allocator locks for one block: the next power of two; 0 for none."""
    return 1 << (size_bytes - 1).bit_length() if size_bytes > 0 else 0
