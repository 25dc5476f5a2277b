"""``autotune run``: executes a plan, and puts what is measured beside what was predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.catalog.registry import find_model
from autotune.cli.console import Steps, print_error, print_json, print_lines, print_table, print_text, show_steps
from autotune.cli.options import JsonOption
from autotune.cli.typed import typed_command
from autotune.profile import load_profile
from autotune.workflows.outputs import check_writable, write_uses
from autotune.workflows.reporting import write_page_beside
from autotune.workflows.run_collection import PLAN_NAME
from autotune.workflows.run_settings import Clock, Emulation, Rounds
from autotune.workflows.wish_text import optional_bytes
from reports.measurement import measurement_table
from runtime.errors import DeviceMemoryError, InputError, MissingDependencyError
from runtime.measurement_document import MeasurementDocument, save_measurement
from runtime.plan_document import PlanDocument, check_one_card, load_plan

if TYPE_CHECKING:
    from autotune.workflows.execution import Execution

EXIT_DOES_NOT_FIT = 3
EMULATED = "emulated"
PROFILE_NAME = "profile.json"

Execute = Callable[[PlanDocument, Rounds, Steps], "Execution | str"]
"""Executes a plan; a sentence when this machine has too little memory for it."""


def run(  # noqa: PLR0913 - one parameter per option
    plan: Annotated[Path, typer.Argument(help="plan.json of a search.")],
    *,
    model: Annotated[
        str | None, typer.Option("--model", help="The plan's model, to be sure; another one is refused.")
    ] = None,
    device: Annotated[
        str, typer.Option("--device", help=f"cuda, cuda:0 or another card, or {EMULATED}: a software accelerator.")
    ] = "cuda:0",
    warmup: Annotated[
        int, typer.Option("--warmup", help="Requests that do not count, the first after load included.", min=1)
    ] = 1,
    repeats: Annotated[int, typer.Option("--repeats", help="Requests that count.", min=1, max=1000)] = 3,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for measurement.json and its report; the plan's unless given.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", help="Of random weights and made-up inputs.", min=0, max=2**32 - 1)
    ] = 0,
    clock: Annotated[
        Clock | None, typer.Option("--clock", help=f"{EMULATED}: real (the default), or virtual, which takes no time.")
    ] = None,
    time_scale: Annotated[
        float | None,
        typer.Option("--time-scale", help=f"{EMULATED}: wall seconds per emulated one; else a request takes 5 s."),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", help=f"{EMULATED}: how fast it is; {PROFILE_NAME} beside the plan.")
    ] = None,
    vram_cap: Annotated[
        str | None, typer.Option("--vram-cap", help=f"{EMULATED}: its memory; the plan's cap unless given.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Execute a plan with random weights, and compare what its request takes with the prediction."""
    typed = {"--clock": clock, "--time-scale": time_scale, "--profile": profile, "--vram-cap": vram_cap}
    if device != EMULATED and (wrong := [name for name, value in typed.items() if value is not None]):
        raise InputError(f"{', '.join(wrong)} only mean something with --device {EMULATED}: leave them out")
    if device == "cpu":
        raise InputError(f"--device cpu can be profiled and planned for, not run: use a card, or --device {EMULATED}")
    rounds = Rounds(warmup=warmup, repeats=repeats)
    emulation = Emulation(clock=clock or "real", time_scale=time_scale, capacity_bytes=optional_bytes(vram_cap))
    document = load_plan(plan)
    check_one_card(document)
    if model is not None:
        _check_model(document, model)
    folder = plan.parent if out is None else out
    check_writable(folder)
    now = datetime.now(UTC).astimezone()

    def execute(progress: Steps) -> Execution | str:
        if device == EMULATED:
            return _emulate(document, profile or plan.parent / PROFILE_NAME, emulation, rounds, seed, progress)
        return _execute(document, device, rounds, seed, progress)

    try:
        with show_steps() as progress:
            answer = execute(progress)
    except DeviceMemoryError as error:
        answer = str(error)
    except ModuleNotFoundError as missing:
        raise MissingDependencyError(
            f"{missing.name} is not installed: executing a plan needs it; install layerstream-autotune[models]"
        ) from missing
    if isinstance(answer, str):
        _report_no_fit(answer, as_json=json)
        raise typer.Exit(EXIT_DOES_NOT_FIT)
    measurement = _record(document, answer, rounds, seed=seed, created=now)
    path = save_measurement(measurement, folder)
    uses = write_uses(measurement, folder)
    source = plan.parent if plan.name == PLAN_NAME else folder
    if problem := write_page_beside(folder, source, measurement):
        print_error(f"warning: {problem}")
    if json:
        print_json(measurement)
    else:
        _show(measurement, answer, (path, uses))


def _check_model(document: PlanDocument, typed: str) -> None:
    planned = document.model.name
    if typed.strip().casefold() != planned.casefold() and find_model(typed).name != planned:
        raise InputError(f"--model is {typed}, and the plan is for {planned}: leave --model out, or name the plan's")


def _emulate(
    document: PlanDocument, profile: Path, emulation: Emulation, rounds: Rounds, seed: int, progress: Steps
) -> Execution:
    # Executing needs torch, which most commands do without.
    from autotune.workflows.emulated_execution import execute_emulated  # noqa: PLC0415

    if not profile.exists():
        raise InputError(
            f"the emulated device is as fast as a profile says, and {profile} is not there: name the one that the plan "
            "was made from with --profile"
        )
    speed = load_profile(profile)
    progress.notify("executing requests on the emulated device")
    return execute_emulated(document, speed, emulation, rounds, seed=seed, count=progress.count)


def _execute(document: PlanDocument, device: str, rounds: Rounds, seed: int, progress: Steps) -> Execution | str:
    from autotune.workflows.live_execution import HostTooSmall, execute_live  # noqa: PLC0415

    answer = execute_live(document, device, rounds, seed=seed, notify=progress.notify, count=progress.count)
    return answer.describe() if isinstance(answer, HostTooSmall) else answer


def _record(
    document: PlanDocument, execution: Execution, rounds: Rounds, *, seed: int, created: datetime
) -> MeasurementDocument:
    from autotune.workflows.measurement_record import build_measurement  # noqa: PLC0415

    return build_measurement(document, execution, rounds, seed=seed, command=typed_command(), created=created)


def _report_no_fit(reason: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"outcome": "does not fit", "reason": reason})
    else:
        print_error(reason)


def _show(measurement: MeasurementDocument, execution: Execution, paths: Sequence[Path]) -> None:
    print_text(execution.report.to_text())
    print_lines([""])
    print_table(measurement_table(measurement))
    print_lines(measurement.notes, bullet="- ")
    print_lines([f"Written to {' and '.join(map(str, paths))}"])
