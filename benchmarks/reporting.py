"""What every benchmark says last: one line of JSON, with the command and the machine that it comes from."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch


class CheckError(Exception):
    """A promise is not kept; the message says which, ``found`` is what was measured all the same."""

    def __init__(self, message: str, found: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.found = found


def describe_machine() -> dict[str, object]:
    """What a result was measured on; other work on it shows in its load."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def describe_command(script: str, arguments: Sequence[str] | None) -> dict[str, object]:
    """How a result was made: what to type at the root of the repository."""
    words = ["python", f"benchmarks/{Path(script).name}", *(sys.argv[1:] if arguments is None else arguments)]
    return {"command": shlex.join(words)}


def finish(result: Mapping[str, object], out: Path | None) -> None:
    """Save ``result`` if a file is named, and print it as one line of JSON."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
