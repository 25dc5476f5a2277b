"""Gathers what the lines of one start of the server say, until the log ends or another start begins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autotune.observed.server_log import LoadedComponent, LoggedRequest, ServerLog, StackPins, StreamedComponent
from runtime.errors import InputError
from runtime.units import MIB

Release = tuple[int, int, int]

_SAMPLING_FIELDS = {"width": "width", "height": "height", "num_frames": "frames", "infer_steps": "steps"}
_LIST_ITEM = re.compile(r"(?P<stack>[\w.]+) \((?P<layers>\d{1,6}) layers\)")


@dataclass(slots=True)
class _Request:
    values: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)

    def finish(self) -> LoggedRequest:
        return LoggedRequest(stages=dict(self.stages), **self.values)


class LogStart:
    """One start under way. ``add`` takes what ``match_line`` finds, in order."""

    def __init__(self) -> None:
        self._version = ""
        self._arguments: dict[str, object] = {}
        self._stacks: dict[str, dict[str, int]] = {}
        self._streamed: dict[str, StreamedComponent] = {}
        self._pins: dict[tuple[str, str], StackPins] = {}
        self._permanent: dict[str, int] = {}
        self._loaded: dict[str, LoadedComponent] = {}
        self._requests: list[_Request] = []
        self._old_stacks: list[tuple[int, int, int]] = []
        self._old_classes: list[StreamedComponent] = []
        self._oldest: Release | None = None
        self._newest: Release | None = None
        self._is_serving = False
        self._ran_out = False
        self._notes: list[str] = []
        self._faults: list[str] = []

    @property
    def says_anything(self) -> bool:
        """Whether anything but arguments was seen."""
        return bool(self._streamed or self._pins or self._loaded or self._requests or self._is_serving or self._ran_out)

    def ends_before(self, kind: str) -> bool:
        """Whether a line of ``kind`` belongs to another start."""
        if kind == "arguments":
            return self.says_anything
        return kind == "loading" and (self._is_serving or bool(self._requests))

    def add(self, kind: str, match: re.Match[str]) -> None:
        """Take what one line says."""
        try:
            handler: Callable[[re.Match[str]], None] | None = getattr(self, f"_add_{kind}", None)
            if handler is not None:
                handler(match)
        except InputError as error:
            self.add_fault(str(error))

    def add_fault(self, text: str) -> None:
        """Keep what could not be understood."""
        self._faults.append(text)

    def finish(self, where: str, notes: tuple[str, ...], most_faults: int) -> ServerLog:
        """Everything that was said, with at most ``most_faults`` faults."""
        more = len(self._faults) - most_faults
        model = self._arguments.get("model_path")
        for item in self._old_classes:
            self._streamed.setdefault(item.component, item)
        return ServerLog(
            where=where,
            version=self._version,
            oldest=self._oldest,
            newest=self._newest,
            model=model if isinstance(model, str) else "",
            arguments=self._arguments,
            streamed=tuple(self._streamed.values()),
            pins=tuple(self._pins.values()),
            permanent=self._permanent,
            loaded=tuple(self._loaded.values()),
            is_ready=self._is_serving or bool(self._requests),
            requests=tuple(request.finish() for request in self._requests),
            ran_out=self._ran_out,
            notes=(*notes, *dict.fromkeys(self._notes)),
            faults=(*self._faults[:most_faults], *((f"and {more} more",) if more > 0 else ())),
        )

    def _add_arguments(self, match: re.Match[str]) -> None:
        try:
            value = json.loads(match["json"])
        except (ValueError, RecursionError):
            self.add_fault("the line of server_args is no whole JSON: what the server was started with is unknown")
            return
        self._arguments = value

    def _add_version(self, match: re.Match[str]) -> None:
        self._version = self._version or match["version"]

    def _add_loaded(self, match: re.Match[str]) -> None:
        where = match["where"].partition("avail GPU mem")[0]
        self._loaded[match["component"]] = LoadedComponent(
            component=match["component"], on_device="vram:" in where, on_host="host " in where
        )

    def _add_configuring(self, match: re.Match[str]) -> None:
        listed = {item["stack"]: int(item["layers"]) for item in _LIST_ITEM.finditer(match["stacks"])}
        self._stacks[match["component"]] = listed

    def _add_pins(self, match: re.Match[str]) -> None:
        self._keep_pins(match, int(match["pinned"]), float(match["gib"]), float(match["spendable"]))

    def _add_shared(self, match: re.Match[str]) -> None:
        self._keep_pins(match, 0, None, None)

    def _keep_pins(self, match: re.Match[str], pinned: int, gib: float | None, spendable: float | None) -> None:
        found = StackPins(
            component=match["component"],
            stack=match["stack"],
            layers=int(match["layers"]),
            pinned=pinned,
            pageable=int(match["pageable"]),
            mapped=int(match["mapped"]),
            pinned_gib=gib,
            spendable_gib=spendable,
        )
        key = found.component, found.stack
        before = self._pins.get(key)
        if before is not None and before.pinned != found.pinned:
            self._notes.append(
                f"ranks differ in what they pin of {found.component}.{found.stack}: the one that pins least is taken"
            )
        if before is None or found.pinned < before.pinned:
            self._pins[key] = found

    def _add_permanent(self, match: re.Match[str]) -> None:
        self._permanent[f"{match['component']}.{match['stack']}"] = int(match["layers"])

    def _add_ready(self, match: re.Match[str]) -> None:
        name = match["component"]
        if match["lifetimes"] is None:
            self._oldest, self._newest = (0, 5, 19), (0, 5, 20)
        else:
            self._oldest, self._newest = (0, 5, 21), None
        found = StreamedComponent(
            component=name,
            layers=int(match["layers"]),
            resident=int(match["resident"]),
            prefetch=tuple(int(size) for size in match["prefetch"].split(", ")),
            stacks=self._stacks.get(name, {}),
            policies=tuple(match["policies"].strip().split(", ")),
            lifetimes=tuple(match["lifetimes"].split(", ")) if match["lifetimes"] else (),
        )
        if self._streamed.get(name, found) != found:
            self._notes.append(f"{name} was set up to stream in two ways: the last one is taken")
        self._streamed[name] = found

    def _add_stack_ready(self, match: re.Match[str]) -> None:
        logs_residents = match["resident"] is not None
        self._oldest, self._newest = ((0, 5, 17), (0, 5, 17)) if logs_residents else (None, (0, 5, 16))
        self._old_stacks.append((int(match["layers"]), int(match["resident"] or 0), int(match["prefetch"])))

    def _add_class_ready(self, match: re.Match[str]) -> None:
        names = [name.strip(" '\"") for name in match["stacks"].split(",")]
        stacks, self._old_stacks = self._old_stacks, []
        self._old_classes.append(
            StreamedComponent(
                component=match["name"],
                layers=sum(layers for layers, _, _ in stacks),
                resident=sum(resident for _, resident, _ in stacks),
                prefetch=tuple(sorted({prefetch for _, _, prefetch in stacks})),
                stacks=dict(zip(names, (layers for layers, _, _ in stacks), strict=False)),
            )
        )

    def _add_all_ready(self, match: re.Match[str]) -> None:
        names = [name.strip(" '\"") for name in match["names"].split(",") if name.strip(" '\"")]
        classes, self._old_classes = self._old_classes, []
        if not classes:
            self._oldest = self._newest = (0, 5, 18)
        for index, name in enumerate(names):
            same = classes[index] if len(classes) == len(names) else StreamedComponent(component=name)
            self._streamed[name] = StreamedComponent(
                component=name,
                layers=same.layers,
                resident=same.resident,
                prefetch=same.prefetch,
                stacks=same.stacks,
            )

    def _add_serving(self, _: re.Match[str]) -> None:
        self._is_serving = True

    def _add_sampling(self, _: re.Match[str]) -> None:
        self._requests.append(_Request())

    def _add_sampling_value(self, match: re.Match[str]) -> None:
        if self._requests and not self._requests[-1].stages and int(match["value"]) > 0:
            self._requests[-1].values.setdefault(_SAMPLING_FIELDS[match["name"]], int(match["value"]))

    def _add_stage(self, match: re.Match[str]) -> None:
        last = self._requests[-1] if self._requests else None
        if last is None or match["name"] in last.stages or "total_s" in last.values:
            last = _Request()
            self._requests.append(last)
        last.stages[match["name"]] = float(match["seconds"])

    def _add_mean_step(self, match: re.Match[str]) -> None:
        self._set_of_last("mean_step_s", float(match["seconds"]) or None)

    def _add_total(self, match: re.Match[str]) -> None:
        self._set_of_last("total_s", float(match["seconds"]) or None)

    def _add_peak(self, match: re.Match[str]) -> None:
        self._set_of_last("peak_reserved_bytes", round(float(match["mib"]) * MIB) or None)

    def _add_ran_out(self, _: re.Match[str]) -> None:
        self._ran_out = True
        self._set_of_last("ran_out", True)

    def _set_of_last(self, name: str, value: object) -> None:
        if self._requests and value is not None:
            self._requests[-1].values[name] = value
