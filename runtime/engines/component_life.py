"""What the host does for one component, whoever asks: the writer of programs, or the executor as calls come in."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.engines.protocol import StackSchedule
from runtime.program import Action, Op
from runtime.residency import Mode


class ComponentLife:
    """Host-side state of one component under one placement; each method returns the actions that the host performs.

    Attributes:
        index: of the component in its model.
        schedules: of its stacks, by name; none unless the component streams.
        is_moved: whether the component is moved as a whole.
        on_device: whether it is on the device now, if it is moved as a whole.
        holds_residents: whether any layer is meant to stay; such a component is not copied ahead of its use.
    """

    def __init__(self, index: int, mode: Mode, schedules: Mapping[str, StackSchedule]) -> None:
        self.index = index
        self.schedules = dict(schedules)
        self.is_moved = mode is Mode.COMPONENT_OFFLOAD
        self.on_device = False
        self.holds_residents = any(schedule.holds_residents for schedule in schedules.values())

    def load(self) -> list[Action]:
        """Actions at load."""
        return [action for schedule in self.schedules.values() for action in schedule.load()]

    def begin(self) -> list[Action]:
        """Begin a use: bring the component up, or queue its residents and heads."""
        return [(int(Op.BEGIN_USE), self.index), *self._move_up(), *self.prepare()]

    def copy_ahead(self) -> list[Action]:
        """What is queued for a coming use while or after another component is in use."""
        if self.is_moved:
            return self._move_up()
        return [] if self.holds_residents else self.prepare()

    def prepare(self) -> list[Action]:
        """Queue what every stack wants to have when a use begins."""
        return [action for schedule in self.schedules.values() for action in schedule.prepare()]

    def end(self) -> list[Action]:
        """End a use: give back everything but permanent residents."""
        actions: list[Action] = [action for schedule in self.schedules.values() for action in schedule.end_use()]
        actions.append((int(Op.END_USE), self.index))
        if self.is_moved:
            self.on_device = False
            actions.append((int(Op.DOWN), self.index))
        return actions

    def _move_up(self) -> list[Action]:
        if not self.is_moved or self.on_device:
            return []
        self.on_device = True
        return [(int(Op.UP), self.index)]
