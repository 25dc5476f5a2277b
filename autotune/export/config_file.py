"""The file that the server reads with ``--config``: JSON or YAML, keys as the server calls the options' values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autotune.export.option_values import refuse_value
from runtime.errors import FlagError

# A thousand options do not fill it, and a larger YAML file takes seconds.
_MOST_BYTES = 256 * 1024


def read_config_file(name: str) -> dict[str, Any]:
    """The file's keys and values.

    The server takes every key for the name of a value (``num_gpus``) and gives it the value as it stands.

    Raises:
        FlagError: it is no file, cannot be read, is too large or damaged, or holds no keys.
    """
    suffix = Path(name).suffix
    if suffix not in {".json", ".yaml", ".yml"}:
        raise refuse_value(f"--config {name!r}: the server reads .json, .yaml and .yml files")
    try:
        if not Path(name).is_file():  # a pipe would wait for ever
            raise refuse_value(f"--config {name!r} is no file: give the path of the server's configuration")
        with Path(name).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise FlagError(f"--config {name!r} has more than {_MOST_BYTES:,} bytes: give the server's options only")
        document = _parse(content.decode(), suffix)
        _check_text(document, set())
    except OSError as error:
        raise refuse_value(f"--config {name!r} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise refuse_value(f"--config {name!r} is damaged: {reason}") from error
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise refuse_value(f"--config {name!r} must hold option names and their values")
    return document


def _check_text(node: object, seen: set[int]) -> None:
    """Refuse half a surrogate pair anywhere; each node once, because aliases can make a document endless."""
    if isinstance(node, str):
        node.encode()
    elif isinstance(node, dict | list) and id(node) not in seen:
        seen.add(id(node))
        for part in [*node, *node.values()] if isinstance(node, dict) else node:
            _check_text(part, seen)


def _parse(text: str, suffix: str) -> object:
    if suffix == ".json":
        return json.loads(text)
    import yaml  # noqa: PLC0415 - most commands name no such file

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
