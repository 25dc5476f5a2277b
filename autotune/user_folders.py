"""Where this program keeps what it may read again: a folder that the user names, or its own place in the home."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from runtime.errors import InputError

PROGRAM = "layerstream-autotune"


def find_user_folder(variable: str, find_default: Callable[[str], str]) -> Path:
    """The folder that the environment ``variable`` names, or else what ``find_default`` gives the program.

    Raises:
        InputError: neither is there: a container's user may have no home.
    """
    chosen = os.environ.get(variable)
    if chosen:
        return Path(chosen)
    try:
        return Path(find_default(PROGRAM))
    except RuntimeError as error:
        raise InputError(f"this user has no home directory ({error}): name a folder with {variable}") from error
