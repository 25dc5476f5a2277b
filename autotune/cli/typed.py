"""What was typed, as one line that can be typed again."""

from __future__ import annotations

import shlex
import sys

from runtime.files import as_text


def typed_command() -> str:
    """The command of this process; bytes that are no text are written as escapes."""
    return as_text(shlex.join(["autotune", *sys.argv[1:]]))
