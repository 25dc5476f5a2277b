"""``autotune table``: the best plan for each of several requests and caps, and the safest single choice."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from autotune.cli import options as opt
from autotune.cli.console import Steps, print_error, print_json, print_lines, print_table, show_steps
from autotune.cli.run_inputs import read_inputs
from autotune.collector import paused_collector
from autotune.exact import DEFAULT_TIE_RATIO
from autotune.fidelity.peak_margin import SAFE_QUANTILE, check_quantile
from autotune.space import DEFAULT_MAX_PREFETCH, SearchSpace
from autotune.workflows.basis import describe_basis
from autotune.workflows.host import HostWish
from autotune.workflows.inputs import Inputs
from autotune.workflows.outputs import TABLE_FILES, check_folder, choose_folder, write_table
from autotune.workflows.plan_table import (
    PlanTable,
    Size,
    build_table,
    describe_safest,
    describe_size,
    list_records,
    list_rows,
    parse_caps,
    parse_sizes,
)
from autotune.workflows.planning import PlanningSettings
from autotune.workflows.wish_text import read_host_wish, read_rank_wish
from autotune.workload import Workload
from reports.markdown import describe_source
from reports.plan_table import plan_table
from runtime.engines.registry import DEFAULT_ENGINE
from runtime.errors import InputError
from runtime.units import format_percent

EXIT_NOTHING_FITS = 3


def table(  # noqa: PLR0913 - one parameter per option
    *,
    sizes: Annotated[
        str | None,
        typer.Option("--sizes", help="Requests as width x height x frames: 864x480x124,1344x768x124; or --profile."),
    ] = None,
    caps: Annotated[str, typer.Option("--caps", help="VRAM caps with commas between: 12GiB,16GiB,24GiB.")],
    model: opt.ModelOption = None,
    device: opt.DeviceOption = None,
    host_memory: opt.HostOption = None,
    disk_rate: opt.DiskOption = None,
    page_cache_room: opt.CacheOption = None,
    pin_cpu_memory: opt.PinOption = True,
    link_rate: opt.LinkOption = None,
    tp_size: opt.TpSizeOption = None,
    exchange_rate: opt.ExchangeOption = None,
    shared_link: opt.SharedLinkOption = False,
    profile: opt.ProfileOption = None,
    node_profile: opt.NodeProfileOption = None,
    variant: opt.VariantOption = None,
    steps: opt.StepsOption = None,
    prompt_tokens: opt.TokensOption = None,
    batch: opt.BatchOption = None,
    recipe: opt.RecipeOption = None,
    engine: opt.EngineOption = DEFAULT_ENGINE,
    reserve: opt.ReserveOption = "512MiB",
    peak_quantile: opt.QuantileOption = SAFE_QUANTILE,
    max_prefetch: Annotated[int, typer.Option("--max-prefetch", help="Largest prefetch size tried.")] = (
        DEFAULT_MAX_PREFETCH
    ),
    tie_ratio: Annotated[
        float, typer.Option("--tie-ratio", help="Plans this close to the fastest count as equally fast.")
    ] = DEFAULT_TIE_RATIO,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for table.csv; runs/<model>-<time> else.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the table in --out.")] = False,
    refresh: opt.RefreshOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Find the best plan for every size under every cap, and the one plan that serves all of them best."""
    if not 0 <= tie_ratio < 1:
        raise InputError(f"--tie-ratio is {tie_ratio}: give a share from 0 up to below 1, e.g. 0.005")
    check_quantile(peak_quantile)
    if (sizes is None) == (profile is None):
        raise InputError("a table is of the requests in --sizes, or of the one in --profile: give one of the two")
    wanted, caps_bytes = parse_sizes(sizes) if sizes is not None else (), parse_caps(caps)
    now = datetime.now(UTC).astimezone()
    settings = PlanningSettings(
        engine=engine,
        space=SearchSpace(max_prefetch=max_prefetch),
        tie_ratio=tie_ratio,
        reserve_bytes=opt.read_reserve(reserve),
        peak_quantile=peak_quantile,
    )
    check_folder(out or Path("runs"), overwrite=overwrite, is_parent=out is None, known=TABLE_FILES)
    host = read_host_wish(
        host_memory=host_memory,
        disk_rate=disk_rate,
        page_cache_room=page_cache_room,
        pin_cpu_memory=pin_cpu_memory,
    )
    common = {
        "model": model,
        "profile": profile,
        "node_profile": node_profile,
        "device": device,
        "link_rate": link_rate,
        "ranks": read_rank_wish(tp_size, exchange_rate, shared_link=shared_link),
        "variant": variant,
        "refresh": refresh,
    }
    shape = {"steps": steps, "prompt_tokens": prompt_tokens, "batch": batch, "recipe": recipe}
    with show_steps() as progress:
        inputs = _read_all(wanted, shape, host, common, progress)
        first = inputs[0]
        with paused_collector():
            found = build_table([item.facts for item in inputs], caps_bytes, first.target, settings, progress.notify)
    folder = choose_folder(out, f"{first.facts.model.name}-table", now)
    write_table(folder, list_records(found), overwrite=overwrite)
    if json:
        print_json(_as_json(found, first, folder, settings))
    else:
        _show(found, first, folder, settings)
    if not found.fits_anywhere:
        raise typer.Exit(EXIT_NOTHING_FITS)


def _read_all(
    sizes: tuple[Size, ...], shape: dict[str, Any], host: HostWish, common: dict[str, Any], progress: Steps
) -> list[Inputs]:
    """Facts of every size, each once as the server runs it; what it runs another way is told."""
    if not sizes:
        no_size = dict.fromkeys(("width", "height", "frames"))
        return [read_inputs(vram_cap=None, host=host, shape={**shape, **no_size}, notify=progress.notify, **common)]
    found: dict[str, Inputs] = {}
    for size in sizes:
        inputs = read_inputs(
            vram_cap=None,
            host=host,
            shape={**shape, **size.shape},
            notify=progress.notify,
            is_compared=len(sizes) > 1,
            **common,
        )
        runs_as = describe_size(inputs.facts)
        if runs_as in found or _runs_otherwise(size, inputs.facts.workload):
            print_error(f"note: {size.text} runs as {runs_as}")
        found.setdefault(runs_as, inputs)
    return list(found.values())


def _runs_otherwise(size: Size, workload: Workload) -> bool:
    frames = workload.frames if size.frames is None else size.frames
    return (size.width, size.height, frames) != (workload.width, workload.height, workload.frames)


def _show(found: PlanTable, inputs: Inputs, folder: Path, settings: PlanningSettings) -> None:
    target = inputs.target
    variant = f", variant {inputs.facts.variant}" if inputs.facts.variant else ""
    work = inputs.facts.workload
    basis = describe_source(describe_basis(inputs.facts, target.device))
    print_lines(
        [
            f"{basis} {inputs.facts.model.name}{variant}, {work.steps} steps, {work.prompt_tokens} "
            f"prompt tokens, batch {work.batch}, recipe {work.recipe}. Device: {target.device.origin}. "
            f"Host: {target.host.origin}. {format_percent(settings.peak_quantile)} of the cases stay within what is "
            "charged.",
            "",
        ]
    )
    print_table(plan_table(list_rows(found)))
    print_lines([*describe_safest(found), *target.notes], bullet="- ")
    print_lines(["", f"Written to {folder}: table.csv"])


def _as_json(found: PlanTable, inputs: Inputs, folder: Path, settings: PlanningSettings) -> dict[str, object]:
    safest = found.safest
    return {
        "outcome": "planned" if found.fits_anywhere else "nothing fits",
        "folder": str(folder),
        "model": inputs.facts.model.name,
        "variant": inputs.facts.variant,
        "device": inputs.target.device.origin,
        "notes": inputs.target.notes,
        "host": inputs.target.host.origin,
        "peak_quantile": settings.peak_quantile,
        "rows": list_records(found),
        "safest": None
        if safest is None
        else {
            "plan": safest.plan,
            "request": safest.size,
            "cap_bytes": safest.cap_bytes,
            "slowdown_ratios": safest.slowdowns,
            "worst_ratio": safest.worst_ratio,
        },
    }
