"""``autotune profile show`` and ``autotune profile diff``: profiles that were measured, for people."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.console import print_error, print_json, print_lines, print_table
from autotune.cli.options import JsonOption
from autotune.cli.show_profile import show_model, show_node
from autotune.cli.stored_listing import Listed, list_stored
from autotune.measurements.difference import Difference, compare_model_profiles, compare_node_profiles
from autotune.measurements.model_profile import FORMAT as MODEL_FORMAT
from autotune.measurements.model_profile import ModelProfile, load_model_profile
from autotune.measurements.node_profile import FORMAT as NODE_FORMAT
from autotune.measurements.node_profile import NodeProfile, load_node_profile
from autotune.measurements.store import ProfileStore, find_profile_dir
from autotune.workflows.measured_inputs import look_here
from autotune.workflows.profile_judgement import judge_here
from reports.profile_difference import difference_table
from runtime.documents import read_format
from runtime.errors import ProfileError

EXIT_DIFFERENT = 1

group = typer.Typer(name="profile", help="Measure this machine and a model on it; show and compare what was measured.")


@group.command("show")
def show(
    file: Annotated[Path | None, typer.Argument(help="A profile; without it, what is stored for this machine.")] = None,
    *,
    json: JsonOption = False,
) -> None:
    """Show a profile, or list the stored ones and whether they are valid here and now."""
    now = datetime.now(UTC)
    if file is None:
        _show_stored(now, as_json=json)
        return
    profile = _load(file)
    verdict = judge_here(profile, look_here(now))
    if json:
        print_json({"profile": profile, "reasons": verdict.reasons, "warnings": verdict.warnings})
        return
    if isinstance(profile, ModelProfile):
        show_model(profile)
    else:
        show_node(profile)
    print_lines(verdict.warnings, bullet="warning: ")
    print_lines(verdict.reasons, bullet="not valid here: ")


@group.command("diff")
def diff(
    first: Annotated[Path, typer.Argument(help="A profile.")],
    second: Annotated[Path, typer.Argument(help="Another one of the same kind.")],
    *,
    json: JsonOption = False,
) -> None:
    """Compare two profiles figure by figure. Exit code 0 when they agree, 1 when something changed."""
    before, after = _load(first), _load(second)
    if isinstance(before, ModelProfile) and isinstance(after, ModelProfile):
        difference = compare_model_profiles(before, after)
    elif isinstance(before, NodeProfile) and isinstance(after, NodeProfile):
        difference = compare_node_profiles(before, after)
    else:
        raise ProfileError(f"{first} and {second} are a model profile and a node profile: compare two of one kind")
    if json:
        print_json(difference)
    else:
        _show_difference(difference)
    if difference.changes:
        raise typer.Exit(EXIT_DIFFERENT)


def _load(path: Path) -> ModelProfile | NodeProfile:
    if read_format(path) == NODE_FORMAT:
        return load_node_profile(path)
    return load_model_profile(path)


def _show_difference(difference: Difference) -> None:
    print_lines(difference.circumstances, bullet="- ")
    same = len(difference.comparisons) - len(difference.changes)
    print_lines([f"{same} of {len(difference.comparisons)} figures agree within their spread."])
    if difference.changes:
        print_table(difference_table(difference))
    if difference.left_out:
        print_lines([f"Not compared, since they say what was so at one moment: {', '.join(difference.left_out)}."])


def _show_stored(now: datetime, *, as_json: bool) -> None:
    store = ProfileStore(find_profile_dir())
    listed = list_stored(store, now)
    for problem in store.problems:
        print_error(f"warning: {problem}")
    if as_json:
        print_json([_as_plain(each) for each in listed])
        return
    if not listed:
        print_lines([f"No profiles are stored in {store.folder}: `autotune profile --model MODEL` measures them."])
        return
    for each in listed:
        print_lines([each.title])
        print_lines([each.describe_state(now)], bullet="  ")
        print_lines([each.item.path.name, ""], bullet="  ")
    print_lines([f"They are in {store.folder}."])


def _as_plain(listed: Listed) -> dict[str, object]:
    profile = listed.item.profile
    return {
        "file": str(listed.item.path),
        "format": NODE_FORMAT if isinstance(profile, NodeProfile) else MODEL_FORMAT,
        "of": listed.title,
        "measured_at": profile.measured_at,
        "is_valid": listed.verdict.is_valid,
        "reasons": listed.verdict.reasons,
        "warnings": listed.verdict.warnings,
    }
