"""``autotune calibrate``: fits the figures of a model and a card to observed runs of a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.capture_cache import load_model_facts
from autotune.catalog.registry import find_model
from autotune.cli import options as opt
from autotune.cli.console import print_error, print_json, print_lines, print_table, show_steps
from autotune.fidelity.report import CalibrationReport
from autotune.hardware import find_device
from autotune.profile import FORMAT, load_profile
from autotune.workflows.calibration import calibrate_runs
from autotune.workflows.inputs import build_workload
from autotune.workflows.observed_sources import RunWish, read_observed
from autotune.workflows.outputs import write_json
from autotune.workflows.wish_text import optional_bytes
from reports.calibration import (
    describe_floor,
    factor_table,
    forecast_table,
    held_out_table,
    list_sentences,
    refused_table,
    residual_table,
)
from runtime.documents import read_format
from runtime.engines.registry import DEFAULT_ENGINE
from runtime.errors import InputError


def calibrate(  # noqa: PLR0913 - one parameter per option
    *,
    model: Annotated[str, typer.Option("--model", help="Catalog model that the runs are of; see `autotune models`.")],
    observed: Annotated[
        list[str],
        typer.Option(
            "--observed",
            help="runs.csv, or server.log,dump.json of one run (one of them will do), with settings that they do not "
            "say: dump.json,transformer.resident=30. Once per table or run.",
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Fit these runs, by name, and compare the others; once each or with commas."),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Preset of the card that the runs are of; see `autotune devices`.")
    ] = None,
    profile: opt.ProfileOption = None,
    host_memory: opt.HostOption = None,
    tp_size: opt.TpSizeOption = None,
    width: opt.WidthOption = None,
    height: opt.HeightOption = None,
    frames: opt.FramesOption = None,
    steps: opt.StepsOption = None,
    prompt_tokens: opt.TokensOption = None,
    batch: opt.BatchOption = None,
    recipe: opt.RecipeOption = None,
    engine: opt.EngineOption = DEFAULT_ENGINE,
    out: Annotated[Path | None, typer.Option("--out", help="Profile to write; plan from it with --profile.")] = None,
    json: opt.JsonOption = False,
) -> None:
    """Fit link rate, compute, overheads and base memory to observed runs, and write the profile that follows."""
    names = [name.strip() for text in only or [] for name in text.split(",") if name.strip()]
    if only and not names:
        raise InputError("--only names no run: give names as the table of fitted runs has them, or leave it out")
    if out is not None:
        _check_out(out, profile)
    entry = find_model(model)
    shape: dict[str, Any] = {
        "width": width,
        "height": height,
        "frames": frames,
        "steps": steps,
        "prompt_tokens": prompt_tokens,
        "batch": batch,
        "recipe": recipe,
    }
    workload = build_workload(entry.name, shape)
    wish = RunWish(
        model=entry.name,
        device=find_device(device).name if device is not None else None,
        workload=entry.settle(workload).workload,
        host_bytes=optional_bytes(host_memory),
        tp_size=tp_size or 1,
    )
    with show_steps() as progress:
        runs = read_observed(observed, wish)
        report = calibrate_runs(
            runs,
            lambda name, request, variant: load_model_facts(name, request, variant, progress=progress.notify),
            only=names,
            workload=wish.workload if any(value is not None for value in shape.values()) else None,
            profile=load_profile(profile) if profile is not None else None,
            engine=engine,
            notify=progress.notify,
        )
    path = out or Path(f"calibrated-{entry.name}-{report.device.name}.json")
    _check_out(path, profile)
    write_json(path, report.profile)
    if json:
        print_json(_as_json(report, path))
    else:
        _show(report, path)


def _check_out(path: Path, profile: Path | None) -> None:
    """Refuse to write over anything but a profile that was not read."""
    if profile is not None and path.resolve() == profile.resolve():
        raise InputError(f"{path} is the profile that --profile reads: name another file with --out")
    if path.is_file() and read_format(path) != FORMAT:
        raise InputError(f"{path} is there already and holds no profile: name another file with --out")


def _as_json(report: CalibrationReport, path: Path) -> dict[str, Any]:
    return {
        "profile": str(path),
        "device": report.device.name,
        "engine": report.engine,
        "factors": report.calibration.factors,
        "noise_ratio": report.calibration.noise_ratio,
        "residuals": report.calibration.residuals,
        "layer_s": report.layer_s,
        "held_out": report.held_out,
        "forecasts": report.forecasts,
        "next_runs": report.next_runs,
        "refused": report.refused,
        "notes": report.notes,
    }


def _show(report: CalibrationReport, path: Path) -> None:
    print_lines(list_sentences(report), bullet="- ")
    print_lines([""])
    print_table(factor_table(report.calibration, report.device))
    print_table(residual_table(report.calibration))
    if report.held_out:
        print_table(held_out_table(report.held_out))
    print_table(forecast_table(report.forecasts))
    print_lines([describe_floor(report.forecasts)])
    print_lines(report.notes, bullet="note: ")
    if report.refused:
        print_table(refused_table(report.refused))
    print_error(f"wrote {path}: plan from it with --profile {path}")
