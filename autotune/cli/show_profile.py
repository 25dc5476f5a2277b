"""Measured profiles on the terminal: in full for a file, and the short form after measuring."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.cli.console import print_lines, print_table
from autotune.measurements.model_profile import ModelProfile
from autotune.measurements.node_profile import NodeProfile
from autotune.model_facts import ModelFacts
from reports.profile import describe_model_profile, describe_node_profile
from reports.profile_node import (
    budget_table,
    describe_link_notes,
    describe_unknown,
    interference_table,
    link_tables,
    spread_tables,
)
from reports.profile_pieces import describe_notes, describe_unmeasured, piece_tables, take_pieces
from reports.profile_troubles import Taken, describe_troubles, take_interference, take_links

_SPREAD = "spread: width of the interval that holds the median, as a share of it"


def show_measured(model: ModelProfile, node: NodeProfile, findings: Sequence[str]) -> None:
    """What was measured just now: what it means, then the figures that matter."""
    print_lines([describe_model_profile(model)[0], ""])
    print_lines(findings, bullet="- ")
    print_lines([""])
    _show_pieces(model, full=False)
    _show_links(node, facts=model.facts)
    print_table(budget_table(node, full=False))
    print_lines([*describe_unknown(node)], bullet="- ")
    _show_remarks(node)
    print_lines(model.notes, bullet="- ")


def show_model(profile: ModelProfile) -> None:
    """All of a model profile."""
    print_lines([*describe_model_profile(profile), ""])
    _show_pieces(profile, full=True)
    print_lines((f"not measured: {each}" for each in describe_unmeasured(profile)), bullet="- ")
    print_lines([*describe_notes(profile), _SPREAD, *profile.notes], bullet="- ")


def show_node(profile: NodeProfile) -> None:
    """All of a node profile."""
    print_lines([*describe_node_profile(profile), ""])
    _show_links(profile, full=True)
    print_table(budget_table(profile, full=True))
    _show_remarks(profile)


def _show_pieces(profile: ModelProfile, *, full: bool) -> None:
    for table in piece_tables(profile, full=full):
        print_table(table)
    _show_troubles(take_pieces(profile))


def _show_links(profile: NodeProfile, *, full: bool = False, facts: ModelFacts | None = None) -> None:
    for table in (*link_tables(profile, facts), *(spread_tables(profile) if full else ())):
        print_table(table)
    _show_troubles(take_links(profile.links), describe_link_notes(profile))
    if profile.interference:
        print_table(interference_table(profile))
        _show_troubles(take_interference(profile.interference))


def _show_troubles(taken: Sequence[Taken], notes: Sequence[str] = ()) -> None:
    """Below the tables that they are about, with room before the next one."""
    troubles = describe_troubles(taken)
    for mark, sentence in troubles:
        print_lines([sentence], bullet=f"{mark} ")
    print_lines(notes, bullet="- ")
    if troubles or notes:
        print_lines([""])


def _show_remarks(profile: NodeProfile) -> None:
    print_lines(profile.neighbours, bullet="neighbour: ")
    print_lines(profile.warnings, bullet="warning: ")
    print_lines(profile.notes, bullet="- ")
