"""Keeps what is measured in a journal, and gives back what was measured there before."""

from __future__ import annotations

from datetime import datetime

from autotune.measurements.journal import Journal
from autotune.measurements.records import Held, PieceRecord, Record
from autotune.measurements.timing import Effort
from autotune.measurements.validity import is_recent

# What failed or found no memory may do better next time: the card was shared, a library was mended.
_FINAL = frozenset({"measured", "skipped"})


class JournalKeeper:
    """See ``RecordKeeper``.

    Args:
        journal: where records are.
        effort: with which records are made; earlier ones of less are not given back.
        now: the time; records older than profiles may be are not given back.
        anew: give back none but those of this keeper.

    Attributes:
        recalled, remembered: how many records were given back, and kept.
    """

    def __init__(self, journal: Journal, effort: Effort, now: datetime, *, anew: bool) -> None:
        self._journal = journal
        self._effort = effort
        self._anew = anew
        self._now = now
        self._own: set[tuple[type[Record], str]] = set()
        self.recalled = self.remembered = 0

    def recall(self, holds: type[Held], key: str) -> Held | None:
        """See ``RecordKeeper``."""
        if self._anew and (holds, key) not in self._own:
            return None
        found = self._journal.recall(holds, key, self._effort)
        if found is None or (isinstance(found, PieceRecord) and found.outcome not in _FINAL):
            return None
        # What was skipped was not measured at any time.
        if found.measured_at and not is_recent(found.measured_at, self._now):
            return None
        self.recalled += 1
        return found

    def remember(self, key: str, record: Record) -> None:
        """See ``RecordKeeper``."""
        self._journal.remember(key, record, self._effort)
        self._own.add((type(record), key))
        self.remembered += 1
