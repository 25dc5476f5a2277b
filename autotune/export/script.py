"""An exported plan as a shell script."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from autotune.export.sglang import Export


def serve_script(export: Export, model_path: str, comment_lines: Sequence[str] = ()) -> str:
    """A bash script that serves ``model_path`` with the exported options, one option a line; more may be appended.

    ``comment_lines`` and the export's notes stand above the command as comments.
    """
    comments = [line for text in (*comment_lines, *export.notes) for line in (text.splitlines() or [""])]
    words = ["exec sglang serve", f"--model-path {shlex.quote(model_path)}"]
    words += [shlex.join(option) for option in export.options()]
    head = ["#!/usr/bin/env bash", *(f"# {line}".rstrip() for line in comments), "set -euo pipefail", ""]
    return "\n".join([*head, " \\\n  ".join([*words, '"$@"'])]) + "\n"
