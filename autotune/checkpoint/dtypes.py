"""Number types of safetensors files: how many bits an element has, and what a server makes of it at load."""

from __future__ import annotations

# safetensors 0.8: every name that its reference library accepts.
BITS: dict[str, int] = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "U16": 16,
    "I16": 16,
    "F16": 16,
    "BF16": 16,
    "U32": 32,
    "I32": 32,
    "F32": 32,
    "U64": 64,
    "I64": 64,
    "F64": 64,
    "C64": 64,
}

PLAIN_FLOATS: dict[str, str] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
"""Floats that a server casts to the dtype in which it runs; the rest is quantised or integer and stays as it is."""

RUN_BYTES_PER_ELEMENT: dict[str, int] = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Of the dtypes in which the server computes."""


def compute_size_bytes(dtype: str, shape: tuple[int, ...], limit_bytes: int) -> int | None:
    """Bytes of a tensor of a known ``dtype``; None when its bits do not fill whole bytes.

    Anything beyond ``limit_bytes`` is reported as ``limit_bytes + 1``, so that a damaged shape costs no arithmetic.
    """
    bits = BITS[dtype]
    if 0 in shape:
        return 0
    for side in shape:
        bits *= side
        if bits > 8 * limit_bytes:
            return limit_bytes + 1
    return None if bits % 8 else bits // 8
