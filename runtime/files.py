"""Files that a user names: read if they are regular and of a sensible size, and their names as text."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 256 * 2**20


def read_file(path: str | Path) -> bytes:
    """The content of the regular file at ``path``.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger than ``MOST_BYTES``.
    """
    file_path = Path(path)
    if file_path.exists() and not file_path.is_file():
        raise OSError("it is no regular file")
    with file_path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(f"it is larger than {MOST_BYTES:,} bytes")
    return content


def as_text(name: object) -> str:
    """``name``, of a file as a rule, as it can be written anywhere: bytes that are no text become escapes."""
    return str(name).encode("utf-8", "backslashreplace").decode()
