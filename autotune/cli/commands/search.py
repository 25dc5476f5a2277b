"""``autotune search``: the main job."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli import options as opt
from autotune.cli.command_inputs import Wishes, merge_wishes, read_command
from autotune.cli.console import print_error, print_json, print_lines, show_steps
from autotune.cli.run_inputs import read_inputs
from autotune.cli.show import show_document
from autotune.cli.typed import typed_command
from autotune.exact import DEFAULT_TIE_RATIO
from autotune.export.dialects import RECORDED_TARGET, find_dialect
from autotune.export.server_command import ServerCommand, explain_unknown
from autotune.export.sglang import Export
from autotune.fidelity.peak_margin import SAFE_QUANTILE, check_quantile
from autotune.space import DEFAULT_MAX_PREFETCH, SearchSpace
from autotune.study import StudySettings, check_storage
from autotune.study_sampler import SamplerName
from autotune.workflows.command_plan import list_carried_over
from autotune.workflows.inputs import Inputs
from autotune.workflows.nothing_fits import describe_nothing_fits
from autotune.workflows.outputs import check_folder, choose_folder, write_run
from autotune.workflows.planned import NothingFits
from autotune.workflows.planning import PlanningSettings
from autotune.workflows.reporting import write_page_beside
from autotune.workflows.search_run import SearchWish, is_auto, search_run
from autotune.workflows.wish_text import read_host_wish, read_rank_wish
from runtime.engines.registry import DEFAULT_ENGINE
from runtime.errors import InputError
from runtime.plan_document import PlanDocument

EXIT_NOTHING_FITS = 3


def search(  # noqa: PLR0913 - one parameter per option
    *,
    model: opt.ModelOption = None,
    vram_cap: opt.CapOption = None,
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
    variant: opt.FastestVariantOption = None,
    width: opt.WidthOption = None,
    height: opt.HeightOption = None,
    frames: opt.FramesOption = None,
    steps: opt.StepsOption = None,
    prompt_tokens: opt.TokensOption = None,
    batch: opt.BatchOption = None,
    recipe: opt.RecipeOption = None,
    engine: opt.EngineOption = DEFAULT_ENGINE,
    reserve: opt.ReserveOption = "512MiB",
    peak_quantile: opt.QuantileOption = SAFE_QUANTILE,
    base_command: Annotated[
        str | None,
        typer.Option(
            "--base-command", help="A server's command, or @file with one: what it places stays, the rest is searched."
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option("--fix", help="component.knob=value that stays as it is, e.g. video_vae.resident=36."),
    ] = None,
    max_prefetch: Annotated[int, typer.Option("--max-prefetch", help="Largest prefetch size tried.")] = (
        DEFAULT_MAX_PREFETCH
    ),
    tie_ratio: Annotated[
        float, typer.Option("--tie-ratio", help="Plans this close to the fastest count as equally fast.")
    ] = DEFAULT_TIE_RATIO,
    advice: Annotated[
        bool,
        typer.Option("--advice/--no-advice", help="Say what other switches and hosts would give; takes some seconds."),
    ] = True,
    trials: Annotated[int, typer.Option("--trials", help="Optuna trials; 0 for none.", min=0)] = 100,
    sampler: Annotated[SamplerName, typer.Option("--sampler", help="Optuna sampler.")] = SamplerName.TPE,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sampler.", min=0)] = 0,
    storage: Annotated[
        str | None, typer.Option("--storage", help="Optuna storage URL, e.g. sqlite:///study.db, to keep trials.")
    ] = None,
    target: Annotated[str, typer.Option("--target", help="Server version to export to.")] = RECORDED_TARGET,
    model_path: Annotated[str | None, typer.Option("--model-path", help="Model path in the exported command.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write; runs/<model>-<time> by default.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    refresh: opt.RefreshOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Find the best placement of every component under a VRAM cap and write plan, report and flags."""
    if not 0 <= tie_ratio < 1:
        raise InputError(f"--tie-ratio is {tie_ratio}: give a share from 0 up to below 1, e.g. 0.005")
    check_quantile(peak_quantile)
    find_dialect(target)
    now = datetime.now(UTC).astimezone()
    settings = PlanningSettings(
        engine=engine,
        space=SearchSpace(max_prefetch=max_prefetch),
        tie_ratio=tie_ratio,
        reserve_bytes=opt.read_reserve(reserve),
        peak_quantile=peak_quantile,
    )
    check_folder(out or Path("runs"), overwrite=overwrite, is_parent=out is None)
    check_storage(storage)
    command = read_command(base_command, "--base-command", engine)
    wishes = merge_wishes(
        command,
        Wishes(
            model=model,
            variant=variant,
            shape={
                "width": width,
                "height": height,
                "frames": frames,
                "steps": steps,
                "prompt_tokens": prompt_tokens,
                "batch": batch,
                "recipe": recipe,
            },
            host=read_host_wish(
                host_memory=host_memory,
                disk_rate=disk_rate,
                page_cache_room=page_cache_room,
                pin_cpu_memory=pin_cpu_memory,
            ),
            ranks=read_rank_wish(tp_size, exchange_rate, shared_link=shared_link),
        ),
        has_profile=profile is not None,
    )
    with show_steps() as progress:
        inputs = read_inputs(
            model=wishes.model,
            profile=profile,
            node_profile=node_profile,
            device=device,
            vram_cap=vram_cap,
            host=wishes.host,
            link_rate=link_rate,
            ranks=wishes.ranks,
            variant=None if is_auto(wishes.variant) else wishes.variant,
            shape=wishes.shape,
            refresh=refresh,
            notify=progress.notify,
            is_compared=is_auto(wishes.variant),
        )
        _tell_notes(command, inputs)
        wish = SearchWish(
            fixed=tuple(fix or ()),
            command=command,
            takes_fastest_variant=is_auto(wishes.variant),
            advises=advice,
            study=StudySettings(trials=trials, sampler=sampler, seed=seed, storage=storage) if trials else None,
            target=target,
            model_path=model_path,
            typed=typed_command(),
            created=now,
        )
        answer = search_run(inputs, settings, wish, notify=progress.notify, study_progress=progress.count)
    if isinstance(answer, NothingFits):
        _report_nothing_fits(answer, inputs, as_json=json)
        raise typer.Exit(EXIT_NOTHING_FITS)
    files, document, exported = answer.files, answer.files.document, answer.files.export
    folder = choose_folder(out, document.model.name, now)
    write_run(folder, files, overwrite=overwrite)
    if problem := write_page_beside(folder, folder):
        print_error(f"warning: {problem}")
    if json:
        print_json(
            {"outcome": "planned", "folder": str(folder), "flags": exported.argv if exported else [], "plan": document}
        )
    else:
        _show(document, exported, folder)
    if answer.refusal is not None:
        # The plan is kept, with flags for the version that it was simulated for.
        raise answer.refusal


def _tell_notes(command: ServerCommand | None, inputs: Inputs) -> None:
    """What the base command asks for besides placements."""
    if command is not None:
        for note in (*explain_unknown(command), *list_carried_over(command, inputs.facts.model)):
            print_error(f"note: {note}")


def _show(document: PlanDocument, exported: Export | None, folder: Path) -> None:
    show_document(document, details=False)
    if exported is not None:
        print_lines(["", "Flags for the server:"])
        for option in exported.options():
            typer.echo(f"  {' '.join(option)}")
        print_lines(exported.notes, bullet="note: ")
    print_lines(["", f"Written to {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}"])


def _report_nothing_fits(answer: NothingFits, inputs: Inputs, *, as_json: bool) -> None:
    lines = describe_nothing_fits(answer, inputs.target)
    if as_json:
        print_json(
            {
                "outcome": "nothing fits",
                "limit": "vram" if answer.short_bytes else "host memory",
                "available_bytes": answer.cap_bytes,
                "needed_bytes": answer.nearest.peak.charged_bytes,
                "kept_free_bytes": answer.nearest.peak.kept_free_bytes,
                "short_bytes": answer.short_bytes,
                "host_available_bytes": inputs.target.host.available_bytes,
                "host_needed_bytes": answer.nearest.hosting.held_bytes,
                "host_short_bytes": answer.host_short_bytes,
                "phase": answer.nearest.peak.phase,
                "nearest": {item.component: item.describe() for item in answer.nearest.plan.placements},
                "device": inputs.target.device.origin,
            }
        )
        return
    print_error(f"Planned for {inputs.target.device.origin}")
    for line in lines:
        print_error(line)
