"""Reads what ``--observed`` names: tables of runs, and the logs and dumps of single runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.catalog.registry import find_model
from autotune.observed.measurement_table import read_measurement_table
from autotune.observed.observation import Observation, ObservedRuns, Reason, Refused, Setup
from autotune.observed.perf_dump import PerfDump, load_perf_dump
from autotune.observed.read_server_log import load_server_log
from autotune.observed.request_cells import SIGMA_POINT_MODELS
from autotune.observed.run_observation import list_settings, observe_dump, observe_log
from autotune.observed.server_log import LoggedRequest, ServerLog
from autotune.workload import Workload
from runtime.errors import InputError
from runtime.files import as_text

_TABLES, _DUMPS, _LOGS = (".csv", ".tsv"), (".json",), (".log", ".txt", ".out")
_KINDS = f"{', '.join(_TABLES)} are tables, {', '.join(_DUMPS)} dumps, {', '.join(_LOGS)} logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWish:
    """What is known of runs whose logs and dumps do not say it.

    Attributes:
        model: name of the catalog model.
        device: name of the preset; None where nothing was typed.
        workload: the request; what a log says of it counts more.
        host_bytes: memory of the host; None for ample.
        tp_size: ranks.
    """

    model: str
    device: str | None
    workload: Workload
    host_bytes: int | None = None
    tp_size: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """One ``--observed``: files of one run, or a table, and settings that the files do not say."""

    text: str
    files: tuple[Path, ...]
    settings: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        return self.files[0].suffix.casefold() in _TABLES

    @property
    def figures(self) -> Path:
        """The file that the figures come from: the dump where there is one."""
        return next((path for path in self.files if path.suffix.casefold() in _DUMPS), self.files[0])


def read_observed(sources: Sequence[str], wish: RunWish) -> ObservedRuns:
    """Everything that ``sources`` hold about the model of ``wish``; runs on another device are refused.

    Args:
        sources: each is a table, or a log, a dump or both of one run, with settings, separated by commas:
            ``runs.csv``, ``server.log,dump.json``, ``dump.json,transformer.resident=30``.
        wish: what logs and dumps do not say.

    Raises:
        InputError: a file that cannot be read, is of no known kind, or gives its figures twice; ranks or a host
            are wished for tables, which say these themselves.
    """
    runs = ObservedRuns()
    split = [_split(text) for text in sources]
    _refuse_repeated(split)
    if all(source.is_table for source in split) and (wish.tp_size > 1 or wish.host_bytes is not None):
        raise InputError(
            "--tp-size and --host-memory are about logs and dumps, and only tables are given: say it in the table, in "
            "the columns tp_size and host_memory"
        )
    for source in split:
        runs += _read_table(source, wish) if source.is_table else _read_run(source, wish)
    return _keep_device(_tell_apart(runs), wish.device)


def _refuse_repeated(sources: Sequence[_Source]) -> None:
    """A file whose figures are read twice would count as two runs; a log may stand beside the dump of each request."""
    counts = Counter(os.path.realpath(source.figures) for source in sources)
    if repeated := [source.figures for source in sources if counts[os.path.realpath(source.figures)] > 1]:
        raise InputError(f"--observed {as_text(repeated[0])} is given more than once: give every run once")


def _tell_apart(runs: ObservedRuns) -> ObservedRuns:
    """Runs that share a name with the place where each stands added to it."""
    counts = Counter(run.name for run in runs.observations)
    return replace(
        runs,
        observations=tuple(
            replace(run, name=f"{run.name} ({run.where})") if counts[run.name] > 1 else run for run in runs.observations
        ),
    )


def _split(text: str) -> _Source:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    settings = tuple(part for part in parts if "=" in part)
    files = tuple(Path(part) for part in parts if "=" not in part)
    if not files:
        raise InputError(f"--observed {text!r} names no file: give a table, a log or a dump; {_KINDS}")
    kinds = [path.suffix.casefold() for path in files]
    known = (*_TABLES, *_DUMPS, *_LOGS)
    if strange := [as_text(path) for path, kind in zip(files, kinds, strict=True) if kind not in known]:
        raise InputError(f"--observed {strange[0]}: what it holds is told by its name's end; {_KINDS}")
    for group in (_TABLES, _DUMPS, _LOGS):
        if sum(kind in group for kind in kinds) > 1:
            raise InputError(f"--observed {text!r} names two files of one kind: give each run an --observed of its own")
    if kinds[0] in _TABLES and (len(files) > 1 or settings):
        raise InputError(f"--observed {text!r}: a table says everything itself: give it alone")
    if len(files) > 1 and any(kind in _TABLES for kind in kinds):
        raise InputError(f"--observed {text!r}: a table is no part of a run: give it an --observed of its own")
    return _Source(text=text, files=files, settings=settings)


def _read_table(source: _Source, wish: RunWish) -> ObservedRuns:
    return read_measurement_table(source.files[0], wish.model)


def _read_run(source: _Source, wish: RunWish) -> ObservedRuns:
    """The run of a log, a dump, or both: the log says where components were, the dump is the finer clock."""
    if wish.device is None:
        raise InputError(f"--observed {source.text!r}: a log or dump does not say which card it is of: give --device")
    logs = [load_server_log(path) for path in source.files if path.suffix.casefold() in _LOGS]
    dumps = [load_perf_dump(path) for path in source.files if path.suffix.casefold() in _DUMPS]
    read: list[ServerLog | PerfDump] = [*logs, *dumps]
    notes = [f"{item.where}: {fault}" for item in read for fault in item.faults]
    notes += [f"{log.where}: {note}" for log in logs for note in log.notes]
    log, dump = (logs[0] if logs else None), (dumps[0] if dumps else None)
    where = " and ".join(as_text(path) for path in source.files)
    other = next((item.model for item in read if item.model and not _is_model(item.model, wish.model)), None)
    if other is not None:
        text = f"it is a run of {other}, not of {wish.model}: give --model, or leave it out"
        return ObservedRuns(refused=(_refuse(where, Reason.UNKNOWN_MODEL, text),), notes=tuple(notes))
    setup = _make_setup(wish, log)
    try:
        observation = _observe(log, dump, setup, where, source.settings)
    except InputError as error:
        return ObservedRuns(refused=(_refuse(where, Reason.NO_FIGURE, str(error)),), notes=tuple(notes))
    if not observation.settings:
        notes.append(
            f"{where}: nothing says where components were, so all is taken to stream with default knobs: give the "
            "server's log beside the dump, or settings such as transformer.resident=30"
        )
    return ObservedRuns(observations=(observation,), notes=tuple(notes))


def _observe(
    log: ServerLog | None, dump: PerfDump | None, setup: Setup, where: str, settings: tuple[str, ...]
) -> Observation:
    """One run from its log, its dump, or both; ``settings`` count more than the log."""
    components = tuple(find_model(setup.model).configs)
    if dump is None:
        assert log is not None
        return observe_log(log, setup, name=where, components=components, settings=settings)
    placed = (*(list_settings(log) if log is not None else ()), *settings)
    found = observe_dump(dump, setup, name=where, components=components, settings=placed)
    return replace(found, where=where)


def _make_setup(wish: RunWish, log: ServerLog | None) -> Setup:
    request = (log.last_request if log is not None else None) or LoggedRequest()
    shape = {name: getattr(request, name) for name in ("width", "height", "frames")}
    if request.steps:
        # The server counts forwards, as logs and dumps show.
        shape["steps"] = request.steps + int(wish.model in SIGMA_POINT_MODELS)
    workload = replace(wish.workload, **{name: value for name, value in shape.items() if value})
    assert wish.device is not None
    return Setup(
        model=wish.model,
        device=wish.device,
        workload=workload,
        host_bytes=wish.host_bytes,
        tp_size=wish.tp_size,
        server=log.version if log is not None else "",
    )


def _is_model(named: str, model: str) -> bool:
    """Whether a server that was started with ``named``, a repository or a folder, runs ``model``."""
    last = named.rstrip("/").rpartition("/")[2].casefold()
    names = {name.casefold() for name in find_model(model).names}
    return named.casefold() in names or last in names or any(name.rpartition("/")[2] == last for name in names)


def _refuse(where: str, reason: Reason, text: str) -> Refused:
    return Refused(name=where, where=where, reason=reason, text=text)


def _keep_device(runs: ObservedRuns, device: str | None) -> ObservedRuns:
    """Without the runs on other devices than ``device``; None keeps all, which must then be of one."""
    devices = list(dict.fromkeys(run.setup.device for run in runs.observations))
    if device is None:
        if len(devices) > 1:
            raise InputError(
                f"the runs are of several cards, {', '.join(devices)}: say with --device which one is meant"
            )
        return runs
    others = tuple(
        Refused(
            name=run.name,
            where=run.where,
            reason=Reason.UNKNOWN_DEVICE,
            text=f"it is of {run.setup.device}, not of {device}: its own calibration needs --device {run.setup.device}",
        )
        for run in runs.observations
        if run.setup.device != device
    )
    kept = tuple(run for run in runs.observations if run.setup.device == device)
    return replace(runs, observations=kept, refused=runs.refused + others)
