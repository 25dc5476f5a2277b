"""Holds back Python's cycle collector while thousands of plans are predicted."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """No automatic collection inside the block.

    Predicting plans makes many small tuples that live long and are never part of a cycle; the collector would walk them
    all again and again. Building the tables of H3 takes half the time without it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
