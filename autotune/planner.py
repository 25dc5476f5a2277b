"""Planning from Python: what the commands ``search``, ``run --device emulated`` and ``validate`` do, without files.

Names are exported by the package: ``autotune.search(model="FLUX.1-dev", device="rtx-4090", vram_cap="24GiB")``. Sizes
and rates are text with a unit, as on the command line: ``24GiB`` is 24 * 2**30 bytes, ``24GB`` is 24 * 10**9.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.capture_cache import load_model_facts
from autotune.exact import DEFAULT_TIE_RATIO
from autotune.fidelity.peak_margin import SAFE_QUANTILE, check_quantile
from autotune.observed.measurement_table import read_measurement_table
from autotune.space import DEFAULT_MAX_PREFETCH, SearchSpace
from autotune.study import StudySettings
from autotune.workflows.inputs import DEFAULT_MODEL, InputWish, read_inputs
from autotune.workflows.outputs import RunFiles, write_run, write_uses
from autotune.workflows.planned import NothingFits
from autotune.workflows.planning import PlanningSettings
from autotune.workflows.run_record import describe_run
from autotune.workflows.run_settings import Clock, Emulation, Rounds
from autotune.workflows.search_run import SearchWish, is_auto, search_run
from autotune.workflows.wish_text import optional_bytes, optional_rate, read_host_wish
from autotune.workload import Recipe
from reports.run_data import RunData
from runtime.engines.registry import DEFAULT_ENGINE
from runtime.errors import InputError, MissingDependencyError
from runtime.measurement_document import save_measurement
from runtime.plan_document import PlanDocument, check_one_card

if TYPE_CHECKING:
    from autotune.workflows.validation import Validation


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A plan that fits, with all that was found around it.

    Attributes:
        files: what ``save`` writes.
        data: the record from which ``reports.figures`` draw and ``reports.page`` writes.
    """

    files: RunFiles
    data: RunData

    @property
    def plan(self) -> PlanDocument:
        """The decision, its predictions (bytes, seconds), comparisons and findings."""
        return self.files.document


def search(  # noqa: PLR0913 - one parameter per option
    *,
    model: str = DEFAULT_MODEL,
    device: str | None = None,
    vram_cap: str | None = None,
    host_memory: str | None = None,
    disk_rate: str | None = None,
    page_cache_room: str | None = None,
    pin_cpu_memory: bool = True,
    link_rate: str | None = None,
    variant: str | None = None,
    width: int | None = None,
    height: int | None = None,
    frames: int | None = None,
    steps: int | None = None,
    prompt_tokens: int | None = None,
    batch: int | None = None,
    recipe: str | None = None,
    engine: str = DEFAULT_ENGINE,
    peak_quantile: float = SAFE_QUANTILE,
    max_prefetch: int = DEFAULT_MAX_PREFETCH,
    tie_ratio: float = DEFAULT_TIE_RATIO,
    fix: Sequence[str] = (),
    advice: bool = True,
    trials: int = 100,
    name: str | None = None,
) -> Run | NothingFits:
    """Find the best placement of every component under a VRAM cap: ``autotune search`` with the same options.

    Args:
        model: of the catalog, or the path of a checkpoint.
        device: a preset; None for this machine's card, or the default one where there is none.
        vram_cap: device memory that the server may use; None for all that the card has.
        host_memory: of the host; ``this-machine`` reads it here, None assumes it unless the device is this machine's.
        disk_rate, page_cache_room: reads of mapped weights, and what the page cache keeps of them.
        pin_cpu_memory: whether the server may pin host memory.
        link_rate: host to device, from pinned memory.
        variant: another way to run the model; ``auto`` for the fastest one with the same output.
        width, height: pixels; None here and below for the model's own.
        frames, steps, prompt_tokens, batch, recipe: of the request; steps are sigma points.
        engine: whose behaviour is simulated.
        peak_quantile: share of the cases in which the peak is to stay within what is charged.
        max_prefetch: the largest prefetch size that is tried.
        tie_ratio: plans this close to the fastest count as equally fast.
        fix: ``component.knob=value`` that stays as it is.
        advice: whether other switches and hosts are looked at, too; it takes some seconds.
        trials: of the Optuna study; 0 for none.
        name: what the run is called in pictures; the model, device and cap if None.

    Raises:
        InputError: an unknown name, a request that the server cannot run, or settings that contradict each other.
        UnitError: a size or a rate that is none.
        UnsupportedError: the engine or this version cannot do it.
        MissingDependencyError: a library that reads the model is not installed.
    """
    command = _spell_command(locals(), search.__kwdefaults__ or {})
    check_quantile(peak_quantile)
    host = read_host_wish(
        host_memory=host_memory,
        disk_rate=disk_rate,
        page_cache_room=page_cache_room,
        pin_cpu_memory=pin_cpu_memory,
    )
    wish = InputWish(
        model=model,
        device=device,
        vram_cap_bytes=optional_bytes(vram_cap),
        host=host,
        pinned_bytes_per_s=optional_rate(link_rate),
        variant=None if is_auto(variant) else variant,
        shape={
            "width": width,
            "height": height,
            "frames": frames,
            "steps": steps,
            "prompt_tokens": prompt_tokens,
            "batch": batch,
            "recipe": _recipe(recipe),
        },
        is_compared=is_auto(variant),
    )
    settings = PlanningSettings(
        engine=engine,
        space=SearchSpace(max_prefetch=max_prefetch),
        tie_ratio=tie_ratio,
        peak_quantile=peak_quantile,
    )
    search_wish = SearchWish(
        fixed=tuple(fix),
        takes_fastest_variant=is_auto(variant),
        advises=advice,
        study=StudySettings(trials=trials) if trials else None,
        typed=command,
        created=_now(),
    )
    answer = search_run(read_inputs(wish), settings, search_wish)
    if isinstance(answer, NothingFits):
        return answer
    called = name or ", ".join(part for part in (model, device, vram_cap) if part)
    return Run(files=answer.files, data=describe_run(answer.files, called))


def execute(run: Run, *, clock: Clock = "virtual", warmup: int = 1, repeats: int = 3, seed: int = 0) -> Run:
    """``run`` with what its plan takes on the emulated accelerator: ``autotune run --device emulated``.

    The emulated card is as fast as the profile of the run says and has the memory of its cap.

    Args:
        run: of one card.
        clock: ``virtual`` computes times and takes none; ``real`` lets copies and compute take their time.
        warmup: requests that do not count, the first one after load among them.
        repeats: requests that count.
        seed: of the random weights.

    Raises:
        InputError: the plan is of one rank of several, runs nothing, or less than one request of a kind is asked for.
        DeviceMemoryError: the plan takes more device memory than its cap.
        MissingDependencyError: torch is not installed.
    """
    check_one_card(run.plan)
    rounds = Rounds(warmup=warmup, repeats=repeats)
    try:
        # Executing needs torch, which planning from known facts does without.
        from autotune.workflows.emulated_execution import execute_emulated  # noqa: PLC0415
        from autotune.workflows.measurement_record import build_measurement  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise MissingDependencyError(
            f"{missing.name} is not installed: executing a plan needs it; install layerstream-autotune[models]"
        ) from missing
    found = execute_emulated(run.plan, run.files.profile, Emulation(clock=clock), rounds, seed=seed)
    command = shlex.join(["autotune", "run", "plan.json", "--device", "emulated", "--clock", clock])
    measured = build_measurement(run.plan, found, rounds, seed=seed, command=command, created=_now())
    return replace(run, data=replace(run.data, measurement=measured))


def validate(table: str | Path, *, model: str | None = None, engine: str = DEFAULT_ENGINE) -> Validation:
    """Predictions beside measured runs: ``autotune validate``; ``reports.figures.scatter`` draws them.

    Args:
        table: CSV file of measured runs, in the columns of ``public_measurements.csv``.
        model: the only one that is compared; None for all.
        engine: whose behaviour is simulated.

    Raises:
        InputError: the file cannot be read, or nothing in it can be compared.
    """
    # Calibrating takes a library that nothing else here needs.
    from autotune.workflows.validation import validate_runs  # noqa: PLC0415

    return validate_runs(read_measurement_table(table, model), load_model_facts, engine=engine)


def save(run: Run, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write the files of ``run`` into ``folder``, as ``autotune search`` does, and its measurement if it has one.

    Raises:
        InputError: the folder cannot be written, holds other files, or holds a run and ``overwrite`` is not set.
    """
    path = Path(folder)
    write_run(path, run.files, overwrite=overwrite)
    if run.data.measurement is not None:
        save_measurement(run.data.measurement, path)
        write_uses(run.data.measurement, path)


def _spell_command(asked: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The command line that searches for the same."""
    words = ["autotune", "search", "--model", asked["model"]]
    for name, value in asked.items():
        option = name.replace("_", "-")
        if name in {"model", "name"} or value == defaults[name]:
            continue
        if isinstance(value, bool):
            words.append(f"--no-{option}")
        else:
            for item in value if name == "fix" else (value,):
                words += [f"--{option}", str(item)]
    return shlex.join(words)


def _recipe(text: str | None) -> Recipe | None:
    try:
        return None if text is None else Recipe(text)
    except ValueError:
        raise InputError(f"recipe is {text!r}: known are {', '.join(Recipe)}") from None


def _now() -> datetime:
    return datetime.now(UTC).astimezone()
