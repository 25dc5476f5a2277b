"""The error of a row that cannot be compared; the reader of the table turns it into a ``Refused``."""

from __future__ import annotations

from autotune.observed.observation import Reason
from runtime.errors import InputError


class RowRefusedError(InputError):
    """A row that cannot be compared: its kind of reason, and a sentence that says what would help."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
