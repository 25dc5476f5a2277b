"""Finds the pieces into which one run of a component falls: its layers, parts outside the stacks, and the rest.

No weight is loaded: the run is made on the meta device, and only shapes, counts and calls come out. Imports torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from autotune.capture import ForwardWork
from autotune.catalog.built_component import BuiltComponent, meta_empty
from autotune.measure.call_template import describe_template, list_tensors, make_template
from autotune.meta_replay import CallReplayer, describe_module
from autotune.meta_tracker import OUTSIDE, Label, WorkTracker
from autotune.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTemplate:
    """One kind of call of a piece.

    Attributes:
        args, kwargs: templates of the arguments.
        result: template of what came back.
        after: templates of the arguments when the call was over: it may have put tensors into lists.
    """

    args: object
    kwargs: object
    result: object
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a piece is: the path of its module, and what the server calls it.

    Attributes:
        path: dotted, inside the component's module.
        stack, index: of a layer; ``stack`` is None for a part outside the stacks.
        runs_once: whether the server runs it once per use, whatever the library does.
    """

    path: str
    stack: str | None = None
    index: int | None = None
    runs_once: bool = False

    @property
    def name(self) -> str:
        """``blocks[7]``, or the path of a part."""
        return self.path if self.stack is None else f"{self.stack}[{self.index}]"


@dataclass(slots=True, kw_only=True)
class CapturedPiece:
    """One place called in one way.

    Attributes:
        place, call: where, and how.
        digest: equal for pieces that compute alike: class, settings, weights, arguments, counted work.
        class_name: of the module.
        calls: in the captured run.
        work: of one call, counted.
        entry_bytes: live activations when the first call began.
        rise_bytes: what the call added to them at the most, counted.
    """

    place: Place
    call: CallTemplate
    digest: str
    class_name: str
    calls: int
    work: Work
    entry_bytes: int
    rise_bytes: int

    def describe_inputs(self) -> tuple[str, ...]:
        """Shapes and dtypes of the tensors it is called with."""
        tensors = (*list_tensors(self.call.args), *list_tensors(self.call.kwargs))
        return tuple(tensor.describe() for tensor in tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRun:
    """One run of a component, piece by piece.

    Attributes:
        pieces: in order of first call.
        around: counted work of everything else.
        activation_bytes: peak of live activations, as the eager graph has them.
    """

    pieces: tuple[CapturedPiece, ...]
    around: Work
    activation_bytes: int

    def count_forward(self, layer_counts: Mapping[str, int], cost: Callable[[CapturedPiece], Work]) -> ForwardWork:
        """The run as ``capture_forward`` would have booked it, each call of a piece taken as ``cost`` says.

        Args:
            layer_counts: layers of every stack.
            cost: of one call; counted or measured.
        """
        layers = {stack: [Work()] * count for stack, count in layer_counts.items()}
        outside, once = self.around, Work()
        for piece in self.pieces:
            work = cost(piece).scaled(piece.calls)
            if piece.place.stack is not None and piece.place.index is not None:
                layers[piece.place.stack][piece.place.index] += work
            elif piece.place.runs_once:
                once += work
            else:
                outside += work
        return ForwardWork(
            layers={stack: tuple(works) for stack, works in layers.items()},
            outside=outside,
            once=once,
            activation_bytes=self.activation_bytes,
        )


def capture_run(built: BuiltComponent) -> CapturedRun:
    """Run ``built`` once on the meta device, where it still is. Its modules are rewired for good.

    A piece is the outermost module that is called, holds weights (or runs once per use, or is a layer) and contains no
    layer; so a container whose children are called one by one falls into these.
    """
    watcher = _PieceWatcher(built)
    with torch.no_grad(), watcher.tracker:
        built.run(meta_empty, watcher.tracker)
    return watcher.finish()


def list_places(built: BuiltComponent) -> Iterator[tuple[Place, nn.Module]]:
    """Every module of ``built`` that can be a piece, outermost first."""
    stacks = {id(layer): (stack, index) for stack, layers in built.stacks.items() for index, layer in enumerate(layers)}
    once = {id(part) for part in built.once}
    inside: set[int] = set()
    for path, module in built.module.named_modules():
        if id(module) in inside or not path:
            continue
        below = {id(part) for part in module.modules()} - {id(module)}
        if id(module) in stacks:
            inside |= below
            stack, index = stacks[id(module)]
            yield Place(path=path, stack=stack, index=index), module
        elif below & stacks.keys() or below & once:
            continue
        elif id(module) in once:
            inside |= below
            yield Place(path=path, runs_once=True), module
        elif any(True for _ in module.parameters()):
            yield Place(path=path), module


@dataclass(slots=True)
class _PieceWatcher:
    """Labels the calls of every piece, so that the tracker books them apart, in repeated calls too."""

    built: BuiltComponent
    tracker: WorkTracker = field(init=False)
    _pieces: dict[Label, CapturedPiece] = field(init=False, default_factory=dict)
    _labels: dict[tuple[str, str], Label] = field(init=False, default_factory=dict)
    _is_inside: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        module = self.built.module
        self.tracker = WorkTracker(fixed=[*module.parameters(), *module.buffers()])
        replayer = CallReplayer(self.tracker)
        for place, part in list_places(self.built):
            if place.stack is not None:
                replayer.watch(part)
            self._watch(place, part)
        for part in self.built.repeated:
            replayer.watch(part)

    def _watch(self, place: Place, module: nn.Module) -> None:
        forward, described = module.forward, repr(describe_module(module))

        def call(*args: object, **kwargs: object) -> object:
            if self._is_inside:
                return forward(*args, **kwargs)
            self._is_inside = True
            try:
                return self._call(place, module, described, forward, args, kwargs)
            finally:
                self._is_inside = False

        module.forward = call

    def _call(
        self,
        place: Place,
        module: nn.Module,
        described: str,
        forward: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        before = make_template(args), make_template(kwargs)
        signature = describe_template(before[0]) + describe_template(before[1])
        label = self._labels.setdefault((place.path, signature), (place.path, len(self._labels)))
        booked, entry_bytes = self.tracker.work_of(label), self.tracker.live_bytes
        with self.tracker.labelled(label), self.tracker.local_peak() as rise:
            result = forward(*args, **kwargs)
        if label in self._pieces:
            self._pieces[label].calls += 1
            return result
        work = self.tracker.work_of(label) + booked.scaled(-1.0)
        digest = hashlib.sha256(f"{described}{signature}{work}".encode()).hexdigest()[:32]
        self._pieces[label] = CapturedPiece(
            place=place,
            call=CallTemplate(
                args=before[0],
                kwargs=before[1],
                result=make_template(result),
                after=make_template([list(args), dict(kwargs)]),
            ),
            digest=digest,
            class_name=type(module).__name__,
            calls=1,
            work=work,
            entry_bytes=entry_bytes,
            rise_bytes=rise[0],
        )
        return result

    def finish(self) -> CapturedRun:
        for label, piece in self._pieces.items():
            piece.calls = _count_calls(self.tracker.work_of(label), piece)
        return CapturedRun(
            pieces=tuple(self._pieces.values()),
            around=self.tracker.work_of(OUTSIDE),
            activation_bytes=self.tracker.peak_bytes,
        )


def _count_calls(booked: Work, piece: CapturedPiece) -> int:
    """Calls of a piece, those inside of replayed calls included: each has booked the same work."""
    pairs = (
        (booked.matmul_flops, piece.work.matmul_flops),
        (booked.attention_flops, piece.work.attention_flops),
        (booked.other_bytes, piece.work.other_bytes),
    )
    return next((round(total / one) for total, one in pairs if one), piece.calls)
