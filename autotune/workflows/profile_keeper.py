"""Keeps what is measured in a journal, and gives back what was measured there before."""

from __future__ import annotations

from typing import Literal, overload

from autotune.measure.bench import Record, RecordKind
from autotune.measurements.journal import Journal
from autotune.measurements.records import InterferenceRecord, LinkRecord, PieceRecord
from autotune.measurements.timing import Effort
from runtime.plan_document import Figure

# What failed or found no memory may do better next time: the card was shared, a library was mended.
_FINAL = frozenset({"measured", "skipped"})


class JournalKeeper:
    """See ``RecordKeeper``.

    Args:
        journal: where records are.
        effort: with which records are made; earlier ones of less are not given back.
        anew: give back none but those of this keeper.

    Attributes:
        recalled, remembered: how many records were given back, and kept.
    """

    def __init__(self, journal: Journal, effort: Effort, *, anew: bool) -> None:
        self._journal = journal
        self._effort = effort
        self._anew = anew
        self._own: set[tuple[RecordKind, str]] = set()
        self.recalled = self.remembered = 0

    @overload
    def recall(self, kind: Literal["piece"], key: str) -> PieceRecord | None: ...
    @overload
    def recall(self, kind: Literal["link"], key: str) -> LinkRecord | None: ...
    @overload
    def recall(self, kind: Literal["interference"], key: str) -> InterferenceRecord | None: ...
    @overload
    def recall(self, kind: Literal["figure"], key: str) -> Figure | None: ...
    def recall(self, kind: RecordKind, key: str) -> Record | None:
        """See ``RecordKeeper``."""
        if self._anew and (kind, key) not in self._own:
            return None
        found: Record | None = self._journal.recall(kind, key, self._effort)
        if isinstance(found, PieceRecord) and found.outcome not in _FINAL:
            return None
        self.recalled += found is not None
        return found

    def remember(self, kind: RecordKind, key: str, record: Record) -> None:
        """See ``RecordKeeper``."""
        self._journal.remember(kind, key, record, self._effort)
        self._own.add((kind, key))
        self.remembered += 1
