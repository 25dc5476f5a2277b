"""``autotune doctor``: what this machine has, where each figure comes from, and what gets in the way."""

from __future__ import annotations

from datetime import UTC, datetime

from autotune.cli.console import print_json, print_lines, print_table
from autotune.cli.options import JsonOption
from autotune.cli.stored_listing import list_stored
from autotune.measurements.store import ProfileStore, find_profile_dir
from autotune.workflows.doctor import gather_machine
from reports.doctor import (
    build_plain,
    describe_choice,
    describe_problems,
    gpu_tables,
    host_table,
    software_table,
)


def doctor(*, json: JsonOption = False) -> None:
    """Show this machine's GPU, memory limits and software, each with its source, and what to do about problems."""
    report = gather_machine(profiles=_describe_profiles())
    if json:
        print_json(build_plain(report))
        return
    print_lines([describe_choice(report), ""])
    for table in (*gpu_tables(report), host_table(report), software_table(report)):
        print_table(table)
    print_lines([*report.profiles, ""])
    problems = describe_problems(report)
    print_lines(["Problems:" if problems else "No problems were found."])
    print_lines(problems, bullet="- ")


def _describe_profiles() -> list[str]:
    now, store = datetime.now(UTC), ProfileStore(find_profile_dir())
    listed = list_stored(store, now)
    if not listed:
        return [
            "No profiles are stored: `autotune profile --model MODEL` measures this machine and a model.",
            *store.problems,
        ]
    return [*(f"Profile of {each.title}; {each.describe_state(now)}." for each in listed), *store.problems]
