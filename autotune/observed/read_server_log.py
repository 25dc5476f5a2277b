"""Reads the log of SGLang-diffusion line by line: of any size, cut off, with lines of several ranks mixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from autotune.observed.log_start import LogStart
from autotune.observed.server_log import ServerLog
from autotune.observed.server_log_lines import BROKEN, clean, match_line
from runtime.errors import InputError
from runtime.files import as_text

_LONGEST_LINE = 1 << 20
_MOST_FAULTS = 20
# Lines of these kinds can stand in any file: they do not make it a log.
_ANYBODYS = frozenset({"sampling_value", "version", "ran_out"})
_REMEDY = "give what `sglang serve` or `sglang generate` wrote to its standard output"


def load_server_log(path: str | Path) -> ServerLog:
    """Read the log at ``path``; of several starts in it, the last one.

    Raises:
        InputError: it cannot be read, or no line of it is the server's.
    """
    name, file_path = as_text(path), Path(path)
    try:
        if file_path.exists() and not file_path.is_file():
            raise InputError(f"cannot read the log {name}: it is no regular file")
        with file_path.open("rb") as file:
            return parse_server_log(_read_lines(iter(lambda: file.readline(_LONGEST_LINE), b"")), name)
    except OSError as error:
        raise InputError(f"cannot read the log {name}: {error.strerror or error}") from error


def parse_server_log(lines: Iterable[str], where: str) -> ServerLog:
    """The last start in ``lines``, and its requests.

    Raises:
        InputError: no line is the server's.
    """
    starts: list[LogStart] = []
    current = LogStart()
    known = 0
    for line in lines:
        found = match_line(line)
        if not found and BROKEN.search(line):
            current.add_fault(f"a line that says {line.strip()[:120]!r} is cut off or of an unknown release")
        for kind, match in found:
            known += kind not in _ANYBODYS
            if current.ends_before(kind):
                starts.append(current)
                current = LogStart()
            current.add(kind, match)
    if not known:
        raise InputError(f"no line of {where} is of SGLang-diffusion's log: {_REMEDY}")
    if starts and not current.says_anything:
        current = starts.pop()
    notes = (f"{where} holds {len(starts) + 1} starts of the server: the last one is used",) if starts else ()
    return current.finish(where, notes, _MOST_FAULTS)


def _read_lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Lines without colours; a progress bar writes several into one, separated by carriage returns."""
    for chunk in chunks:
        for line in chunk.decode("utf-8", "replace").split("\r"):
            yield clean(line)
