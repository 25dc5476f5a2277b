"""A command as somebody types it into a shell, taken apart into words. Nothing is executed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType

from runtime.errors import FlagError, UnsupportedError

# The longest word that Linux gives to a program (MAX_ARG_STRLEN, 32 pages): no whole command needs more.
MAX_COMMAND_BYTES = 131_072

_SUBCOMMANDS = ("serve", "generate")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_ENDS_COMMAND = ";&|"
_OPERATOR = re.compile(rf"[{_ENDS_COMMAND}]+|[0-9]?>{{1,2}}.*|<.*", re.DOTALL)
_COMMENT_LINE = re.compile(r"^\s*#.*$", re.MULTILINE)
_CONTINUATION = re.compile(r"\\\r?\n")
_EXAMPLE = "give it like 'sglang serve --model-path MiniMaxAI/MiniMax-H3 --performance-mode auto'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """One start of the server.

    Attributes:
        subcommand: ``serve`` or ``generate``.
        argv: what follows it, up to the end of the command.
        environment: the assignments in front of it.
    """

    subcommand: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]


# What a script passes on; nothing, when it is called without arguments.
_ARGUMENTS_OF_A_SCRIPT = frozenset({"$@", "$*"})


def split_command(text: str) -> ShellCommand:
    """Find the start of the server in ``text``.

    ``sglang serve``, ``sglang generate`` and ``python -m sglang...`` are understood, behind environment assignments
    and starters such as ``docker run`` or ``nohup``. Comment lines are left out and lines may be continued; what
    follows ``&``, ``|``, ``;`` or ``>`` belongs to the shell.

    Raises:
        FlagError: empty, too long, with quotes that do not close or characters that no command has, or without the
            server.
        UnsupportedError: the server is told to serve a language model.
    """
    words = _split_words(text)
    start, subcommand, begin = _find_server(words)
    argv = []
    for word in words[begin:]:
        if _OPERATOR.fullmatch(word):
            break
        if word not in _ARGUMENTS_OF_A_SCRIPT:
            argv.append(word)
    environment = dict(word.partition("=")[::2] for word in words[:start] if _ASSIGNMENT.fullmatch(word))
    return ShellCommand(
        subcommand=subcommand,
        argv=tuple(_settle_model(subcommand, argv)),
        environment=MappingProxyType(environment),
    )


def _split_words(text: str) -> list[str]:
    if len(text) > MAX_COMMAND_BYTES:
        raise FlagError(f"the command has {len(text):,} characters, more than {MAX_COMMAND_BYTES:,}: {_EXAMPLE}")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        raise FlagError(f"the command holds NUL or bytes that are no text, which no command has: {_EXAMPLE}")
    try:
        lexer = shlex.shlex(
            _CONTINUATION.sub("", _COMMENT_LINE.sub("", text)), posix=True, punctuation_chars=_ENDS_COMMAND
        )
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError as error:
        raise FlagError(f"the command cannot be taken apart: {error}; close its quotes and escapes") from error
    if not words:
        raise FlagError(f"the command is empty: {_EXAMPLE}")
    return words


def _find_server(words: list[str]) -> tuple[int, str, int]:
    """(position of the program, subcommand, position of the first argument)."""
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if PurePosixPath(word).name == "sglang" and following in _SUBCOMMANDS:
            return index, following, index + 2
        if word == "-m" and following.partition(".")[0] == "sglang":
            subcommand = words[index + 2] if index + 2 < len(words) else ""
            if subcommand in _SUBCOMMANDS:
                return index, subcommand, index + 3
            return index, "serve", index + 2
    raise FlagError(f"the command does not start the server ({' '.join(words[:3])[:60]!r} ...): {_EXAMPLE}")


def _settle_model(subcommand: str, argv: list[str]) -> list[str]:
    """``serve`` takes the model as its first word, too, and a selector of what kind of server it is."""
    if subcommand != "serve":
        return argv
    settled = []
    words = iter(argv)
    for word in words:
        name, separator, value = word.partition("=")
        if name != "--model-type":
            settled.append(word)
            continue
        kind = value if separator else next(words, "")
        if kind not in {"auto", "diffusion"}:
            raise UnsupportedError(f"--model-type {kind!r}: only diffusion servers are predicted")
    if settled and not settled[0].startswith("-"):
        return ["--model-path", *settled]
    return settled
