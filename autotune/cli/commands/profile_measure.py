"""``autotune profile``: measures a model's layers, the machine's links and its budgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.catalog.registry import find_model
from autotune.cli import options as opt
from autotune.cli.console import Steps, print_error, print_json, print_lines, show_steps
from autotune.cli.show_profile import show_measured
from autotune.hardware import find_device
from autotune.measurements.model_profile import RunOptions
from autotune.measurements.store import ProfileStore, find_profile_dir
from autotune.measurements.timing import Effort
from autotune.workflows.inputs import DEFAULT_MODEL, build_workload
from autotune.workflows.stored_profiles import look_around
from autotune.workflows.target import DEFAULT_DEVICE
from reports.profile_findings import list_findings
from runtime.documents import replace_file
from runtime.errors import InputError, MissingDependencyError
from runtime.units import format_seconds

if TYPE_CHECKING:
    from autotune.workflows.profiling_halves import Kept

DEFAULT_NAME = "cuda:0"
_FIRST_SHARE = 0.02
"""Of all work: before that much is done nothing can be said about the rest."""


def measure(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    *,
    model: opt.ModelOption = None,
    device: Annotated[
        str, typer.Option("--device", help="cuda:0 or another card, cpu, or emulated: a card of known speed.")
    ] = DEFAULT_NAME,
    like: Annotated[
        str | None, typer.Option("--like", help=f"emulated: the card; {DEFAULT_DEVICE} unless given.")
    ] = None,
    width: opt.WidthOption = None,
    height: opt.HeightOption = None,
    frames: opt.FramesOption = None,
    steps: opt.StepsOption = None,
    prompt_tokens: opt.TokensOption = None,
    batch: opt.BatchOption = None,
    recipe: opt.RecipeOption = None,
    component: Annotated[
        list[str] | None, typer.Option("--component", help="Measure only this component; may be given several times.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few samples, wide intervals.")] = False,
    thorough: Annotated[bool, typer.Option("--thorough", help="Many samples, narrow intervals.")] = False,
    attention: Annotated[
        str, typer.Option("--attention", help="Hold torch to one backend: math, flash, efficient or cudnn.")
    ] = "auto",
    autocast: Annotated[str, typer.Option("--autocast", help="Run under autocast: bfloat16 or float16.")] = "none",
    compiled: Annotated[bool, typer.Option("--compile", help="Compile every layer with torch.compile.")] = False,
    disk: Annotated[
        Path | None, typer.Option("--disk", help="A large file on the disk of the checkpoints: measures its reads.")
    ] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Measure also what earlier runs have measured.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of random weights and inputs.", min=0, max=2**32 - 1)] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder for copies of both profiles, to be carried elsewhere.")
    ] = None,
    json: opt.JsonOption = False,
) -> None:
    """Measure a model's layers, one of each kind, and this machine's links and budgets.

    No checkpoint is needed, and no card that holds the model. Every record is kept as soon as it is made; the same
    command goes on where it was interrupted.
    """
    if context.invoked_subcommand is not None:
        return
    if quick and thorough:
        raise InputError("--quick and --thorough contradict each other: give one, or neither")
    if like is not None and device != "emulated":
        raise InputError("--like says how fast an emulated card is: leave it out, or give --device emulated")
    entry = find_model(model or DEFAULT_MODEL)
    shape = {
        "width": width,
        "height": height,
        "frames": frames,
        "steps": steps,
        "prompt_tokens": prompt_tokens,
        "batch": batch,
        "recipe": recipe,
    }
    workload = build_workload(entry.name, shape)
    effort = Effort.QUICK if quick else Effort.THOROUGH if thorough else Effort.DEFAULT
    try:
        # Profiling needs torch, which most commands do without.
        from autotune.workflows.profiling import run_profiling  # noqa: PLC0415
        from autotune.workflows.profiling_halves import Surroundings  # noqa: PLC0415
        from autotune.workflows.profiling_wish import ProfilingWish  # noqa: PLC0415

        wish = ProfilingWish(
            entry=entry,
            workload=workload,
            components=None if component is None else tuple(component),
            options=RunOptions(attention=attention, autocast=autocast, compiled=compiled),
            effort=effort,
            anew=anew,
            path=disk,
            seed=seed,
        )
        with show_steps() as progress:
            around = Surroundings(
                store=ProfileStore(find_profile_dir()),
                versions=look_around(None, datetime.now(UTC)).versions,
                notify=Remaining(progress).notify,
            )
            profiled = run_profiling(wish, device, find_device(like or DEFAULT_DEVICE), around)
    except ModuleNotFoundError as missing:
        raise MissingDependencyError(
            f"{missing.name} is not installed: profiling runs a model's layers; install layerstream-autotune[models]"
        ) from missing
    except KeyboardInterrupt:
        print_error("stopped; what was measured is kept, and the same command goes on from there")
        raise
    kept = (profiled.model_kept, profiled.node_kept)
    paths = [part.path for part in kept] + ([] if out is None else _copy(kept, out))
    default = entry.settle(entry.default_workload).workload
    findings = list_findings(profiled.model, profiled.node, default)
    if json:
        files = [str(path) for path in paths]
        print_json({"findings": findings, "model": profiled.model, "node": profiled.node, "files": files})
        return
    show_measured(profiled.model, profiled.node, findings)
    print_lines([problem for part in kept for problem in part.problems], bullet="warning: ")
    print_lines(["", _count(kept), *(f"Written to {path}" for path in paths)])


class Remaining:
    """Shows what is measured now, and about how long the rest will take if it goes on as before.

    Args:
        progress: where.
        clock: seconds.
    """

    def __init__(self, progress: Steps, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = progress
        self._clock = clock
        self._begun_s = clock()

    def notify(self, text: str, share: float) -> None:
        """``text`` is done now, and ``share`` of all is done."""
        self._progress.notify(text + self.describe(share))
        self._progress.count(round(100 * share), 100)

    def describe(self, share: float) -> str:
        """``, about 40.0 s left``; nothing while too little is done to say."""
        if not _FIRST_SHARE <= share < 1:
            return ""
        left_s = (self._clock() - self._begun_s) * (1 - share) / share
        return f", about {format_seconds(left_s)} left"


def _count(kept: Sequence[Kept]) -> str:
    measured, recalled = sum(part.measured for part in kept), sum(part.recalled for part in kept)
    earlier = f"; {recalled} of earlier runs are still valid and were used again" if recalled else ""
    return f"{'1 timing was' if measured == 1 else f'{measured} timings were'} made now{earlier}."


def _copy(kept: Sequence[Kept], folder: Path) -> list[Path]:
    copies = []
    for part in kept:
        target = folder / part.path.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(target, part.path.read_bytes())
        except OSError as error:
            raise InputError(
                f"cannot write {target} ({error.strerror or error}); the profile itself is kept at {part.path}"
            ) from error
        copies.append(target)
    return copies
