"""Reads a run folder into the one record that pictures, tables and pages are made from.

Every file counts on its own: what is missing, damaged, foreign or of another version is named as a gap, with what a
report lacks for it, and the rest is used. Reading needs neither torch nor optuna.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from autotune.profile import PROFILE_KIND
from autotune.workflows.export_run import is_server
from autotune.workflows.run_replay import Replay, describe_memory, replay_run
from autotune.workflows.run_tables import (
    CURVE_NAME,
    HOSTS_NAME,
    TRIALS_NAME,
    decode_curve,
    decode_hosts,
    decode_trials,
)
from reports.run_data import Gap, MemoryPhase, RunData
from runtime.documents import DocumentKind
from runtime.errors import AutotuneError, InputError
from runtime.files import as_text, read_file
from runtime.measurement_document import FILE_NAME as MEASUREMENT_NAME
from runtime.measurement_document import MEASUREMENT_KIND, MeasurementDocument
from runtime.plan_document import PLAN_KIND, PlanDocument

PLAN_NAME, PROFILE_NAME, SCRIPT_NAME = "plan.json", "profile.json", "serve.sh"

LOST = {
    PLAN_NAME: "the plan, its predictions, comparisons and findings; timeline, stalls and device memory",
    PROFILE_NAME: "the timeline of a request, its passes and stalls, and whose layers device memory holds",
    CURVE_NAME: "the trade-off between latency and VRAM",
    HOSTS_NAME: "the trade-off between latency and host memory",
    TRIALS_NAME: "the progress of the search",
    SCRIPT_NAME: "the script that starts the server",
    MEASUREMENT_NAME: "what an execution of the plan took",
}
"""What a report lacks without a file."""

Part = TypeVar("Part")


def collect_run(folder: str | Path) -> RunData:
    """Everything that ``folder`` gives.

    Raises:
        InputError: it is no folder, or holds nothing of a run.
    """
    path = Path(folder)
    if not path.is_dir():
        what = "a file" if path.exists() else "not there"
        raise InputError(f"{as_text(path)} is {what}: name a run folder, {_WHAT_A_RUN_IS}")
    reader = _FolderReader(path)
    plan = reader.read(PLAN_NAME, PLAN_KIND)
    components = None if plan is None else tuple(placement.component for placement in plan.plan.placements)
    curve = reader.take(CURVE_NAME, lambda text: decode_curve(text, components))
    hosts = reader.take(HOSTS_NAME, decode_hosts)
    trials = reader.take(TRIALS_NAME, lambda text: decode_trials(text, components))
    measurement = _read_measurement(reader, plan)
    replay = _read_replay(reader, plan)
    script = reader.take(SCRIPT_NAME, _decode_script) if plan is None or is_server(plan.plan.engine) else ""
    data = RunData(
        name=as_text(path.resolve().name),
        plan=plan,
        serve_script=script or "",
        curve=curve or (),
        host_curve=hosts or (),
        trials=trials or (),
        timeline=replay.timeline if replay is not None else None,
        windows=replay.windows if replay is not None else (),
        stalls=replay.stalls if replay is not None else (),
        memory=replay.memory if replay is not None else _read_memory(reader, plan),
        measurement=measurement,
        gaps=tuple(reader.gaps),
    )
    if plan is None and measurement is None and not (data.curve or data.host_curve or data.trials):
        problems = "; ".join(f"{gap.file} {gap.problem}" for gap in data.gaps)
        raise InputError(f"{as_text(path)} holds nothing of a run ({problems}): name a run folder, {_WHAT_A_RUN_IS}")
    return data


_WHAT_A_RUN_IS = f"which autotune search or autotune run has written, with {PLAN_NAME} or {MEASUREMENT_NAME} in it"


class _FolderReader:
    """Reads the files of one folder and keeps what is wrong with them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.gaps: list[Gap] = []

    def holds(self, name: str) -> bool:
        """Whether there is such a file, or may be one."""
        try:
            return (self._folder / name).exists()
        except OSError:
            return True

    def take(self, name: str, decode: Callable[[bytes], Part]) -> Part | None:
        """What ``decode`` makes of the file; None, with a gap, where it cannot be had."""
        if not self.holds(name):
            self.lack(name, "is not there; autotune search writes it")
            return None
        try:
            return decode(read_file(self._folder / name))
        except OSError as error:
            self.lack(name, f"cannot be read: {error.strerror or error}")
        except AutotuneError as error:
            self.lack(name, str(error).removeprefix(f"{name} "))
        return None

    def read(self, name: str, kind: DocumentKind[Part]) -> Part | None:
        """The document in the file, as ``take``."""
        return self.take(name, lambda text: kind.decode(text, name))

    def lack(self, name: str, problem: str, lost: str | None = None) -> None:
        """Note what is wrong with a file."""
        self.gaps.append(Gap(file=name, problem=problem, lost=LOST[name] if lost is None else lost))


def _decode_script(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"is no text ({error}); autotune export makes it again") from error


def _read_measurement(reader: _FolderReader, plan: PlanDocument | None) -> MeasurementDocument | None:
    """The measurement, if the folder has one, of the plan, if there is one."""
    if not reader.holds(MEASUREMENT_NAME):
        return None
    found = reader.read(MEASUREMENT_NAME, MEASUREMENT_KIND)
    if found is None or plan is None:
        return found
    planned = {placement.component: placement.describe() for placement in plan.plan.placements}
    if (found.profile_id, found.model, found.placements) == (plan.profile_id, plan.model.name, planned):
        return found
    reader.lack(MEASUREMENT_NAME, "measures another plan than plan.json; execute this one with autotune run")
    return None


def _read_replay(reader: _FolderReader, plan: PlanDocument | None) -> Replay | None:
    if plan is None:
        return None

    def replay(text: bytes) -> Replay:
        return replay_run(plan, PROFILE_KIND.decode(text, PROFILE_NAME))

    return reader.take(PROFILE_NAME, replay)


def _read_memory(reader: _FolderReader, plan: PlanDocument | None) -> tuple[MemoryPhase, ...]:
    """Device memory as far as the plan alone tells it."""
    if plan is None:
        return ()
    try:
        return describe_memory(plan)
    except InputError as error:
        reader.lack(PLAN_NAME, str(error), lost="device memory by phase")
        return ()
