"""The life of a request, shared by every engine: load, uses with their passes, end of the request.

What the host does for one component depends on that component's placement alone, so a component's part is written once
as a *script* and a plan's program is put together from scripts. What differs between engines is the schedule of a stack
and a few habits, given as ``Habits``. The habits of SGLang-diffusion 0.5.23 come from its component manager;
``tests/data/sglang_lifecycle_cases.jsonl`` records them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from runtime.engines.component_life import ComponentLife
from runtime.engines.protocol import StackSchedule, list_stacks
from runtime.model_spec import ModelSpec, PassGroup, RequestSpec
from runtime.plan import Placement, Plan
from runtime.program import Action, Block, Op, Program, RequestProgram, Segment, StackRef, UseProgram
from runtime.residency import Mode

ScheduleFactory = Callable[[Placement, int, StackRef, ModelSpec], StackSchedule]

_REQUESTS = 2  # the first one after load, and any later one: it leaves the device as it found it


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What an engine does between passes.

    Attributes:
        copies_next_head: while an earlier component is in use, the next diffusion transformer already queues its
            heads, unless it holds residents.
        refills_first_head: after a request the first component of the request queues its head again, if its
            placement was not given explicitly and it holds no residents.
        knows_last_pass: whether it copies nothing ahead for a pass that does not come.
    """

    copies_next_head: bool
    refills_first_head: bool
    knows_last_pass: bool = False


@dataclass(slots=True)
class RequestScript:
    """One component's part in one request; positions are those of the request's uses.

    Attributes:
        begin: at the position of an own use, what brings the component up.
        visits: at the position of an own use, its passes and its end.
        ahead: at the position of another component's use, what is queued while that one begins.
        after: the same once that one has ended.
        ending: what is queued when the request has ended.
    """

    begin: dict[int, Block] = field(default_factory=dict)
    visits: dict[int, tuple[Segment, ...]] = field(default_factory=dict)
    ahead: dict[int, Block] = field(default_factory=dict)
    after: dict[int, Block] = field(default_factory=dict)
    ending: Block | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentScript:
    """One component's part in a life: load, then the first and any later request."""

    load: Block
    requests: tuple[RequestScript, ...]


class Lifecycle:
    """Builds programs of one model and request under one engine."""

    def __init__(self, model: ModelSpec, request: RequestSpec, *, factory: ScheduleFactory, habits: Habits) -> None:
        self.model = model
        self.request = request
        self.stacks = list_stacks(model)
        self._factory = factory
        self._habits = habits
        self._names = tuple(component.name for component in model.components)
        self._use_components = tuple(self._names.index(use.component) for use in request.uses)
        self._works = number_work(request)
        self._marks = tuple(
            Block(self._mark_in_use(position, component)) for position, component in enumerate(self._use_components)
        )
        self._parts = tuple(self._list_parts(component) for component in range(len(self._names)))
        self._outsides = {key: Block([(int(Op.WORK), work)]) for key, work in self._works.items()}
        self.script = lru_cache(maxsize=65536)(self._write_script)

    def build_program(self, plan: Plan) -> Program:
        """The program of ``plan``.

        Raises:
            PlanError: the plan was made for another model.
        """
        plan.check_fits_model(self.model)
        scripts = [
            self.script(index, plan.placement(name), explicit=plan.explicit) for index, name in enumerate(self._names)
        ]
        first, later = (self._join_request(scripts, number) for number in range(_REQUESTS))
        return Program(
            components=self._names,
            stacks=self.stacks,
            load=Segment(blocks=tuple(script.load for script in scripts)),
            first=first,
            later=later,
        )

    def _join_request(self, scripts: list[ComponentScript], number: int) -> RequestProgram:
        parts = [script.requests[number] for script in scripts]
        uses = []
        for position, component in enumerate(self._use_components):
            own = parts[component]
            ahead = [part.ahead[position] for part in parts if position in part.ahead]
            begin = Segment(blocks=(own.begin[position], *ahead, self._marks[position]))
            after = tuple(part.after[position] for part in parts if position in part.after)
            uses.append(
                UseProgram(component=component, segments=(begin, *own.visits[position]), after=Segment(blocks=after))
            )
        endings = tuple(part.ending for part in parts if part.ending is not None)
        return RequestProgram(uses=tuple(uses), ending=Segment(blocks=(*endings, _END_OF_REQUEST)))

    def make_life(self, component: int, placement: Placement) -> ComponentLife:
        """The host-side state of one component under ``placement``, before load."""
        schedules: dict[str, StackSchedule] = {}
        if placement.mode is Mode.LAYERWISE_OFFLOAD:
            schedules = {
                stack.name: self._factory(placement, index, stack, self.model)
                for index, stack in enumerate(self.stacks)
                if stack.component == component
            }
        return ComponentLife(component, placement.mode, schedules)

    def _write_script(self, component: int, placement: Placement, *, explicit: bool) -> ComponentScript:
        life = self.make_life(component, placement)
        load = Block(life.load())
        writer, refills = _ScriptWriter(self, life), self.refills(component, explicit=explicit)
        requests = tuple(writer.write_request(refills=refills) for _ in range(_REQUESTS))
        return ComponentScript(load=load, requests=requests)

    def refills(self, component: int, *, explicit: bool) -> bool:
        """Whether ``component`` queues its heads again when a request has ended, unless it holds residents."""
        return self._habits.refills_first_head and not explicit and self._use_components[:1] == (component,)

    def has_last_pass(self, position: int, group: int) -> bool:
        """Whether the last pass of pass group ``group`` of the use at ``position`` is treated as one: no later group of
        the use runs a stack of it again."""
        groups = self.request.uses[position].groups
        again = {stack for later in groups[group + 1 :] for stack in later.stacks}
        return self._habits.knows_last_pass and not again.intersection(groups[group].stacks)

    def moves_ahead_after(self, position: int) -> bool:
        """Whether the next component may be moved up once the use at ``position`` has ended.

        The server moves a whole component ahead only while nothing is in use; where one encoder hands over to the next,
        something always is.
        """
        return not self.request.uses[position].hands_over

    def parts_of(self, component: int) -> tuple[tuple[int, bool], ...]:
        """Positions of uses in which ``component`` acts, each with whether the use is its own."""
        return self._parts[component]

    def _list_parts(self, component: int) -> tuple[tuple[int, bool], ...]:
        parts = []
        for position, used in enumerate(self._use_components):
            coming = (index for index in self._use_components[position + 1 :] if self.model.components[index].is_dit)
            if used == component:
                parts.append((position, True))
            elif self._habits.copies_next_head and next(coming, None) == component:
                parts.append((position, False))
        return tuple(parts)

    def mark(self, position: int) -> Block:
        """The mark, and the work outside the stacks, between the beginning of a use and its passes."""
        return self._marks[position]

    def outside(self, position: int, group: int) -> Block:
        """The work outside the stacks in each pass of pass group ``group`` of the use at ``position``."""
        return self._outsides[position, group]

    def _mark_in_use(self, position: int, component: int) -> list[Action]:
        return [(int(Op.IN_USE), component), (int(Op.WORK), self._works[position, -1])]


class _ScriptWriter:
    """Performs one component's part on the host side only and writes down what the host did."""

    def __init__(self, life: Lifecycle, component: ComponentLife) -> None:
        self._life = life
        self._component = component

    def write_request(self, *, refills: bool) -> RequestScript:
        script, component = RequestScript(), self._component
        for position, own in self._life.parts_of(component.index):
            if own:
                script.begin[position] = Block(component.begin())
                script.visits[position] = self._visit(position)
            elif not component.is_moved:
                if actions := component.copy_ahead():
                    script.ahead[position] = Block(actions)
            elif self._life.moves_ahead_after(position) and (actions := component.copy_ahead()):
                script.after[position] = Block(actions)
        if refills and not component.holds_residents:
            script.ending = Block(component.prepare())
        return script

    def _visit(self, position: int) -> tuple[Segment, ...]:
        segments: list[Segment] = []
        for index, group in enumerate(self._life.request.uses[position].groups):
            outside = self._life.outside(position, index)
            ends = self._life.has_last_pass(position, index)
            segments += self._run_group(group.passes - ends, group, index, outside)
            if ends:
                segments.append(self._run_pass(group, index, outside, last=True))
        return (*segments, Segment(blocks=(Block(self._component.end()),)))

    def _run_group(self, passes: int, group: PassGroup, group_index: int, outside: Block) -> list[Segment]:
        """Passes until the host's state repeats; from then on one pass is written with a repeat count."""
        segments: list[Segment] = []
        previous: object = None
        for done in range(passes):
            state = tuple(schedule.host_state() for schedule in self._schedules_of(group))
            if done and state == previous:
                # The first pass stays a segment of its own: what its first layer waits for is the use's fill.
                remaining = Segment(blocks=segments[-1].blocks, repeat=passes - done, group=group_index)
                return [*segments, remaining]
            previous = state
            segments.append(self._run_pass(group, group_index, outside))
        return segments

    def _run_pass(self, group: PassGroup, group_index: int, outside: Block, *, last: bool = False) -> Segment:
        blocks = [outside]
        for schedule in self._schedules_of(group):
            blocks += schedule.run_pass(last=last)
        return Segment(blocks=tuple(blocks), group=group_index)

    def _schedules_of(self, group: PassGroup) -> list[StackSchedule]:
        known = self._component.schedules
        return [known[name] for name in group.stacks if name in known]


_END_OF_REQUEST = Block([(int(Op.END_REQUEST), 0)])


def number_work(request: RequestSpec) -> dict[tuple[int, int], int]:
    """Index of the work outside the stacks: per use once (key ``(use, -1)``), then per pass of each group."""
    numbers: dict[tuple[int, int], int] = {}
    for position, use in enumerate(request.uses):
        for group in range(-1, len(use.groups)):
            numbers[position, group] = len(numbers)
    return numbers
