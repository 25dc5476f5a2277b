"""What every measurement is made with, and how its record is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from autotune.measure.timing import TimingProtocol
from autotune.measure.watch import Watch
from autotune.measurements.records import Held, Record
from runtime.devices.protocol import Device
from runtime.errors import DeviceError
from runtime.files import as_text


class RecordKeeper(Protocol):
    """Keeps records, so that measuring that was interrupted goes on where it stopped."""

    def recall(self, holds: type[Held], key: str) -> Held | None:
        """The record of one kind that is still valid; None where there is none. Asked before anything is measured."""
        ...

    def remember(self, key: str, record: Record) -> None:
        """Keep a record; called right after it was measured."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What measurements are made with.

    Attributes:
        device: where.
        protocol: when to stop.
        watch: looks at the device around each measurement.
        keeper: of the records.
        notify: told what is measured next, in a few words.
        cold_bytes: of the buffer that is written before a layer is run, see ``cold_start``; 0 for none.
    """

    device: Device
    protocol: TimingProtocol
    watch: Watch
    keeper: RecordKeeper
    notify: Callable[[str], None]
    cold_bytes: int = 0


class LeftOut:
    """What could not be measured, and why."""

    def __init__(self) -> None:
        self._titles: dict[str, list[str]] = {}

    @property
    def reasons(self) -> tuple[str, ...]:
        """One sentence for each reason."""
        return tuple(f"not measured: {', '.join(titles)} ({reason})" for reason, titles in self._titles.items())

    def note(self, title: str, reason: str) -> None:
        """``title`` is left out."""
        self._titles.setdefault(as_text(reason), []).append(as_text(title))

    @contextmanager
    def unless_measured(self, title: str) -> Iterator[None]:
        """What the device or the system refuses inside is noted, and the rest goes on."""
        try:
            yield
        except (DeviceError, OSError) as error:
            self.note(title, str(error).rstrip("."))
