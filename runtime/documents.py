"""Reads and writes the JSON documents that this program keeps: each says what it is, and in which version."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from runtime.errors import AutotuneError, InputError
from runtime.files import read_file

Document = TypeVar("Document")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind(Generic[Document]):
    """One kind of document.

    Attributes:
        noun: what messages call it.
        format, version: what its fields of these names say.
        holds: what it is decoded to; its constructor checks it.
        error: raised for everything that is wrong with one.
        remedy: how to get a new one, for messages.
    """

    noun: str
    format: str
    version: int
    holds: type[Document]
    error: type[InputError]
    remedy: str

    def load(self, path: str | Path) -> Document:
        """The document at ``path``.

        Raises:
            InputError: of the kind's own class: the file cannot be read, is of another kind or version, or is damaged.
        """
        try:
            text = read_file(path)
        except OSError as error:
            raise self.error(f"cannot read the {self.noun} {path}: {error.strerror or error}") from error
        return self.decode(text, str(path))

    def decode(self, text: bytes, name: str) -> Document:
        """The document in ``text``; ``name`` is what messages call it.

        Raises:
            InputError: as ``load``.
        """
        try:
            head = msgspec.json.decode(text, type=dict[str, object])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self.error(f"{name} is not JSON ({error}): {self.remedy}") from error
        if head.get("format") != self.format:
            raise self.error(f'{name} is no {self.noun}: its "format" is {head.get("format")!r}, not {self.format!r}')
        if head.get("version") != self.version:
            raise self.error(
                f"{name} has {self.noun} version {head.get('version')!r}, this program reads {self.version}: "
                f"{self.remedy}, or use the program that made it"
            )
        try:
            return msgspec.json.decode(text, type=self.holds)
        except (msgspec.ValidationError, AutotuneError) as error:
            raise self.error(f"{name} is damaged: {error}") from error


def read_format(path: str | Path) -> str | None:
    """What the document at ``path`` says it is; None where it cannot be read or does not say so."""
    try:
        return msgspec.json.decode(read_file(path), type=_Head).format
    except (OSError, ValueError, RecursionError):
        return None


class _Head(msgspec.Struct):
    format: str | None = None


def encode_document(document: object) -> bytes:
    """``document`` as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def replace_file(path: str | Path, content: bytes) -> None:
    """Write ``content``; an existing file is replaced whole or not at all, a link is followed.

    Raises:
        OSError: it cannot be written.
    """
    target = Path(path).resolve()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".layerstream-") as drafts:
        draft = Path(drafts) / target.name
        draft.write_bytes(content)
        draft.replace(target)
