"""The command line."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run ``autotune``: every error ends in one message and an exit code, never in a traceback.

    The commands are imported here, inside the net: importing them takes long enough to be interrupted.
    """
    try:
        if sys.stdout is None:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - closed by whoever started this process
        from autotune.cli.app import run  # noqa: PLC0415

        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        _say("interrupted")
        code = 130
    except BrokenPipeError:
        # Whoever read the output has gone; nothing more can be told there, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        code = 1
        if error.filename is not None:
            _say(f"error: cannot use {error.filename!r}: {error.strerror}")
        else:
            _say(f"error: cannot write the output: {error.strerror or error}")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
