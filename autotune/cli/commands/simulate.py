"""``autotune simulate``: what given settings cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli import options as opt
from autotune.cli.command_inputs import Wishes, merge_wishes, read_command
from autotune.cli.console import print_json, print_lines, print_table, show_steps
from autotune.cli.run_inputs import read_inputs
from autotune.cli.show_command import show_comparison, show_understood
from autotune.collector import paused_collector
from autotune.export.server_command import ServerCommand
from autotune.fidelity.peak_margin import SAFE_QUANTILE, check_quantile
from autotune.trace_timeline import trace_request
from autotune.workflows.command_plan import check_facts
from autotune.workflows.command_report import plan_on_target, report_command
from autotune.workflows.inputs import Inputs
from autotune.workflows.outputs import write_json
from autotune.workflows.planning import PlanningSettings, build_evaluator, streamed_plan
from autotune.workflows.settings_text import apply_settings
from autotune.workflows.simulation import Simulation, simulate_plan
from autotune.workflows.wish_text import read_host_wish, read_rank_wish
from reports.differences import describe_latency, describe_peak, describe_spread
from reports.markdown import describe_cards, describe_source, describe_workload
from reports.simulation import simulated_uses_table
from reports.tables import describe_hosting, host_table, memory_table
from runtime.engines.registry import DEFAULT_ENGINE
from runtime.errors import InputError
from runtime.units import format_gib, format_seconds


def simulate(  # noqa: PLR0913 - one parameter per option
    *,
    model: opt.ModelOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="component.knob=value, e.g. transformer.resident=10, video_vae.mode=resident."),
    ] = None,
    from_command: Annotated[
        str | None,
        typer.Option("--from-command", help='Predict a server\'s command, e.g. "sglang serve ...", or @file with one.'),
    ] = None,
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
    variant: opt.VariantOption = None,
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
    timeline: Annotated[
        Path | None, typer.Option("--timeline", help="Write spans, stalls and live bytes of the request as JSON.")
    ] = None,
    refresh: opt.RefreshOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Predict one plan: everything streamed with the server's default knobs, changed by --set, or a command's."""
    check_quantile(peak_quantile)
    planning = PlanningSettings(engine=engine, reserve_bytes=opt.read_reserve(reserve), peak_quantile=peak_quantile)
    command = read_command(from_command, "--from-command", engine)
    if command is not None and settings:
        raise InputError("--set changes the streamed plan and --from-command is a plan of its own: leave one out")
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
            variant=wishes.variant,
            shape=wishes.shape,
            refresh=refresh,
            notify=progress.notify,
        )
    if command is not None:
        _simulate_command(command, inputs, planning, timeline=timeline, as_json=json)
        return
    base = streamed_plan(inputs.facts, engine)
    plan = apply_settings(base, inputs.facts.model, settings or [])
    evaluator = build_evaluator(inputs.facts, inputs.target, planning)
    simulation = simulate_plan(evaluator, plan, base, inputs.target, inputs.profile, planning)
    if timeline is not None:
        write_json(timeline, trace_request(evaluator, plan).timeline)
    if json:
        print_json(simulation)
    else:
        _show(simulation)


def _simulate_command(
    command: ServerCommand, inputs: Inputs, planning: PlanningSettings, *, timeline: Path | None, as_json: bool
) -> None:
    check_facts(command, inputs.facts)
    planned = plan_on_target(command, inputs.facts, inputs.target)
    if timeline is not None:
        evaluator = build_evaluator(inputs.facts, inputs.target, planning)
        write_json(timeline, trace_request(evaluator, planned.plan).timeline)
    with show_steps() as progress, paused_collector():
        report = report_command(command, planned, inputs.profile, inputs.target, planning, notify=progress.notify)
    if as_json:
        print_json(report)
        return
    show_understood(report)
    _show(report.simulation)
    show_comparison(report)


def _show(simulation: Simulation) -> None:
    prediction = simulation.prediction
    fits = "fits" if simulation.fits else "does not fit"
    print_lines(
        [
            f"{describe_source(prediction.source)} {describe_workload(simulation.workload, simulation.variant)} "
            f"Device: {simulation.device}. Host: {simulation.host}. Cap: {simulation.cap}.",
            f"A later request takes {describe_latency(prediction)} (the first one after load "
            f"{format_seconds(prediction.first_latency_s)}; streamed with the server's default knobs "
            f"{format_seconds(simulation.streamed_latency_s)}) and is charged "
            f"{format_gib(prediction.peak.charged_bytes)} of VRAM{describe_cards(simulation.tp_size)} in "
            f"'{prediction.peak.phase}'{describe_peak(prediction)}, of which "
            f"{format_gib(prediction.peak.live_bytes)} are live tensors: it {fits}. It needs "
            f"{format_gib(prediction.total_host_bytes * simulation.tp_size)} of host memory. "
            f"{describe_spread(prediction)}",
        ]
    )
    print_lines(simulation.warnings, bullet="warning: ")
    print_lines(simulation.notes, bullet="note: ")
    print_lines(simulation.beside, bullet="- ")
    print_lines([""])
    print_table(simulated_uses_table(prediction, simulation.placements))
    print_table(memory_table(prediction))
    if describe_hosting(prediction):
        print_table(host_table(prediction))
        print_lines(describe_hosting(prediction), bullet="- ")
