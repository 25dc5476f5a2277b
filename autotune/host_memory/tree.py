"""Reads the system's control files under a root directory and remembers which of them could not be read.

A file that is missing says nothing; one that is there and cannot be read or understood is unknown, never "no limit".
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import PurePosixPath

from runtime.files import as_text

# Control files are small; a mount table of a machine with thousands of containers has a few MiB.
_MOST_BYTES = 16 * 2**20
# The kernel refuses to read from /proc/sys into a buffer of megabytes; of /proc it gives about a page at a time.
_CHUNK_BYTES = 64 * 2**10
_NUMBER = re.compile(r"[0-9]{1,40}")


def read_regular_file(path: str, read: Callable[[int, int], bytes] = os.read) -> bytes:
    """The content of the regular file at ``path``, whole.

    Args:
        path: of the file.
        read: gives at most so many bytes of a descriptor, nothing at the end.

    Raises:
        OSError: it is missing, no regular file, longer than 16 MiB, or cannot be read.
        ValueError: no file can have such a path.
    """
    # Non-blocking: a pipe in the place of a control file must not hang the program.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        content = bytearray()
        while part := read(descriptor, _CHUNK_BYTES):
            content += part
            if len(content) > _MOST_BYTES:
                raise OSError(f"longer than {_MOST_BYTES} bytes, the most that is read of a control file")
        return bytes(content)
    finally:
        os.close(descriptor)


class ControlFiles:
    """The files of one machine, or of a copy of one under ``root``; paths are those of the machine, without the root.

    Attributes:
        unknown: files that are there and could not be read or understood, each with the reason, in order of discovery.
    """

    def __init__(self, root: str, read: Callable[[str], bytes] = read_regular_file) -> None:
        self._root = root
        self._read = read
        self._unknown: dict[str, str] = {}

    @property
    def unknown(self) -> tuple[str, ...]:
        """Files that could not be read or understood, with the reason."""
        return tuple(f"{as_text(path)}: {reason}" for path, reason in self._unknown.items())

    def report_unknown(self, path: PurePosixPath, reason: str) -> None:
        """Note that ``path`` is there and its content is not known."""
        self._unknown.setdefault(str(path), reason)

    def read_text(self, path: PurePosixPath) -> str | None:
        """The text of ``path``; None when it is missing, or unknown and reported."""
        try:
            data = self._read(self._locate(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            self.report_unknown(path, getattr(error, "strerror", None) or str(error))
            return None
        # Paths may hold any bytes; surrogate escapes lead back to the same file.
        return os.fsdecode(data)

    def is_directory(self, path: PurePosixPath) -> bool:
        """Whether ``path`` is a directory; when that cannot be told, it is reported."""
        try:
            return stat.S_ISDIR(os.stat(self._locate(path)).st_mode)  # noqa: PTH116 - Path.stat adds nothing here
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError) as error:
            self.report_unknown(path, getattr(error, "strerror", None) or str(error))
            return False

    def read_link(self, path: PurePosixPath) -> str | None:
        """Where the symbolic link ``path`` leads; None when it is missing, no link, or cannot be read."""
        try:
            return os.readlink(self._locate(path))  # noqa: PTH115 - Path.readlink adds nothing here
        except (OSError, ValueError):
            return None

    def read_number(self, path: PurePosixPath) -> int | None:
        """The whole number in ``path``; None when the file is missing, says ``max``, or is unknown and reported."""
        text = self.read_text(path)
        if text is None or text.strip() == "max":
            return None
        number = parse_number(text.strip())
        if number is None:
            self.report_unknown(
                path, f"{as_text(text.strip()[:40])!r} is no number of bytes" if text.strip() else "empty"
            )
        return number

    def read_table(self, path: PurePosixPath) -> dict[str, int]:
        """Lines of ``name number`` such as memory.stat's; empty when the file is missing, or unknown and reported."""
        text = self.read_text(path)
        if text is None:
            return {}
        table: dict[str, int] = {}
        for line in lines_of(text):
            name, _, value = line.partition(" ")
            number = parse_number(value.strip())
            if number is None:
                self.report_unknown(path, f"{as_text(line[:40])!r} is no entry of such a file")
            else:
                table[name] = number
        if not table:
            self.report_unknown(path, "empty")
        return table

    def _locate(self, path: PurePosixPath) -> str:
        return f"{self._root}{path}"


def lines_of(text: str) -> list[str]:
    """Lines that are not blank; only a line feed ends one, since names may hold any other character."""
    return [line for line in text.split("\n") if line.strip()]


def parse_number(text: str) -> int | None:
    """``text`` as a whole number that is not negative; None when it is none."""
    return int(text) if _NUMBER.fullmatch(text) else None
