"""Reads JSON of unknown origin: one object, no key twice, no value that JSON does not have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from runtime.errors import CheckpointError

# An index of a million tensors has about as many bytes; the reference loader refuses longer headers, too.
MAX_DOCUMENT_BYTES = 100_000_000


def parse_object(text: bytes, what: str) -> dict[str, Any]:
    """The JSON object in ``text``.

    Args:
        text: UTF-8; white space around the object is allowed, anything else is not.
        what: names the document in messages, such as ``the header of model.safetensors``.

    Raises:
        CheckpointError: not UTF-8, not JSON, not an object, a key given twice, or nested too deeply.
    """
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_build_object, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{what} is not UTF-8 at byte {error.start}: {_DOWNLOAD}") from None
    except RecursionError:
        raise CheckpointError(f"{what} is nested too deeply: {_DOWNLOAD}") from None
    except ValueError as error:
        padded = " (it is padded with NUL bytes; only spaces are allowed)" if text.endswith(b"\0") else ""
        raise CheckpointError(f"{what} is not valid JSON{padded}: {_shorten(str(error))}; {_DOWNLOAD}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{what} is a JSON {type(value).__name__}, not an object: {_DOWNLOAD}")
    return value


def load_object(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in the file ``path``.

    Raises:
        CheckpointError: as ``parse_object``; or the file cannot be read, or is longer than 100 MB.
    """
    try:
        if not path.is_file():
            raise CheckpointError(f"{path} is no file: it must be {what}")
        size_bytes = path.stat().st_size
        if size_bytes > MAX_DOCUMENT_BYTES:
            raise CheckpointError(f"{path} has {size_bytes:,} bytes: {what} has {MAX_DOCUMENT_BYTES:,} at most")
        text = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_object(text, str(path))


_DOWNLOAD = "the file is damaged; download it again"


def _shorten(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} is given twice")
    return built


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def is_count(value: object) -> bool:
    """Whether ``value`` is a whole number that a file can count with: 0 to 2^63 - 1, and no true or false."""
    return type(value) is int and 0 <= value < 2**63
