"""``autotune verify``: did the server do what a plan says?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.console import print_json, print_lines, print_table
from autotune.cli.options import JsonOption
from autotune.observed.perf_dump import load_perf_dump
from autotune.observed.read_server_log import load_server_log
from autotune.workflows.verification import ObservedPlan, find_unread, took_effect, verify_plan
from reports.verification import verification_table
from runtime.errors import InputError
from runtime.files import as_text
from runtime.plan_document import load_plan

EXIT_MISMATCH = 1


def verify(
    plans: Annotated[list[Path], typer.Argument(help="plan.json of one or more searches.")],
    *,
    logs: Annotated[
        list[Path] | None,
        typer.Option("--log", help="What the server wrote to its output; once per plan, in their order."),
    ] = None,
    dumps: Annotated[
        list[Path] | None,
        typer.Option("--perf-dump", help="JSON of the server's --perf-dump-path; once per plan, in their order."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compare what a server logged and dumped with the plan that it was started with."""
    runs = _load_runs(plans, logs or [], dumps or [])
    verifications, unread = tuple(verify_plan(run) for run in runs), find_unread(runs)
    is_good = took_effect(verifications, unread)
    if json:
        print_json(
            {
                "took_effect": is_good,
                "plans": [{"headline": item.headline, "verification": item} for item in verifications],
                "not_read": unread,
            }
        )
    else:
        for item in verifications:
            print_lines([item.headline, ""])
            print_table(verification_table(item))
            print_lines(item.notes, bullet="- ")
        print_lines([item.text for item in unread])
    if not is_good:
        raise typer.Exit(EXIT_MISMATCH)


def _load_runs(plans: list[Path], logs: list[Path], dumps: list[Path]) -> tuple[ObservedPlan, ...]:
    """Plans with their logs and dumps, paired in order.

    Raises:
        InputError: not as many of either as there are plans, or one that cannot be read.
    """
    for option, files in (("--log", logs), ("--perf-dump", dumps)):
        if files and len(files) != len(plans):
            raise InputError(
                f"{option} is given {len(files)} times for {len(plans)} plans: give it once per plan, in their order"
            )
    if not logs and not dumps:
        raise InputError(
            "nothing was observed: give the server's output with --log, its dump with --perf-dump, or both"
        )
    return tuple(
        ObservedPlan(
            name=as_text(plan),
            document=load_plan(plan),
            log=load_server_log(logs[index]) if logs else None,
            dump=load_perf_dump(dumps[index]) if dumps else None,
        )
        for index, plan in enumerate(plans)
    )
