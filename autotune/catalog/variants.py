"""Other ways in which the server can hold and run a catalog model: cached modulation, quantised weights."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One such way.

    Attributes:
        name: what people type and reports print.
        title: one line for a listing.
        flags: tokens that the server's command line needs for it, in order.
        same_output: whether the output is that of the model as released, bit for bit.
        needs_checkpoint: whether it is another file than the released one.
        dtypes: matrix rates that a device preset must list for it (``fp8`` exists only on cards that compute in it).
        load_device_bytes: device memory that must be free while the server loads it, whatever it needs later; 0 for no
            more than any placement needs.
        note: what to know before choosing it.
    """

    name: str
    title: str
    flags: tuple[str, ...]
    same_output: bool
    needs_checkpoint: bool = False
    dtypes: tuple[str, ...] = ()
    load_device_bytes: int = 0
    note: str = ""
