"""What was typed, as one line that can be typed again."""

from __future__ import annotations

import shlex
import sys


def typed_command() -> str:
    """The command of this process; bytes that are no text are written as escapes."""
    return shlex.join(["autotune", *sys.argv[1:]]).encode("utf-8", "backslashreplace").decode()
