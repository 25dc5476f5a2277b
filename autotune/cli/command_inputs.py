"""What a server's command says about model, variant, recipe, request and host, merged with what was typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.export.server_command import ServerCommand, parse_command
from autotune.export.shell_words import MAX_COMMAND_BYTES
from autotune.workflows.command_plan import check_same_model, find_recipe, find_served_model, find_variant
from autotune.workflows.export_run import is_server
from autotune.workflows.host import HostWish
from autotune.workflows.ranks import RankWish
from runtime.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Arguments of ``read_inputs`` that a command and options decide together."""

    model: str | None
    variant: str | None
    shape: Mapping[str, Any]
    host: HostWish
    ranks: RankWish


def read_command(text: str | None, option: str, engine: str) -> ServerCommand | None:
    """The command behind ``option``, or in the file behind ``@``; None when the option was not given.

    Raises:
        InputError: the file cannot be read, the command is wrong, or the plan is for an engine that is no server.
        UnsupportedError: the command starts something that is not predicted.
    """
    if text is None:
        return None
    if not is_server(engine):
        raise InputError(f"{option} is a command of the server, and --engine {engine} is none: leave one out")
    return parse_command(_read_file(text[1:], option) if text.startswith("@") else text)


def _read_file(name: str, option: str) -> str:
    try:
        if not Path(name).is_file():  # a pipe would wait for ever
            raise InputError(f"{option} @{name}: no such file")
        with Path(name).open("rb") as file:
            return file.read(MAX_COMMAND_BYTES + 1).decode()
    except (OSError, ValueError) as error:
        raise InputError(f"{option} @{name} cannot be read: {error}") from error


def merge_wishes(
    command: ServerCommand | None,
    wishes: Wishes,
    *,
    has_profile: bool,
) -> Wishes:
    """``wishes`` with what ``command`` says where nothing was typed; a saved profile already says the rest.

    Raises:
        InputError: the command serves another model or on other cards than was typed, or a model that nobody knows.
    """
    if command is None:
        return wishes
    typed = wishes.ranks.tp_size
    if typed not in {None, command.tp_size}:
        raise InputError(f"--tp-size is {typed}, and the command runs {command.tp_size} ranks: leave one out")
    host = replace(wishes.host, pins=wishes.host.pins and command.pin_cpu_memory)
    if has_profile:
        if wishes.model is not None:
            check_same_model(command, wishes.model)
        return replace(wishes, host=host)
    ranks = replace(wishes.ranks, tp_size=command.tp_size)
    model = find_served_model(command, wishes.model)
    said = {**command.canvas, "recipe": find_recipe(command, model)}
    shape = {name: said.get(name) if value is None else value for name, value in wishes.shape.items()}
    variant = wishes.variant or find_variant(command, model)
    return Wishes(model=model, variant=variant, shape=shape, host=host, ranks=ranks)
