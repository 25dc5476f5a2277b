"""Export a plan to the command line of a server version."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.export.component_groups import PURE_GROUP_WORDS
from autotune.export.dialects import RECORDED_TARGET, Dialect, find_dialect
from autotune.export.recipe import AssumedFlags
from autotune.export.sglang_parser import PLACEMENT_OPTIONS
from autotune.export.spelling import spell
from runtime.errors import FlagError, InexpressibleError
from runtime.model_spec import ModelSpec
from runtime.plan import Plan
from runtime.residency import Mode

# The server lower-cases selectors and turns hyphens into underscores, but matches map entries as they are written.
_EXACT_NAME = re.compile(r"[a-z0-9_]+")
_FSDP = "--use-fsdp-inference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A plan as a command line.

    Attributes:
        target: the server version that understands it.
        argv: everything after the model path.
        notes: what the target cannot express and what the reader must know; never empty in silence.
    """

    target: str
    argv: tuple[str, ...]
    notes: tuple[str, ...]

    def command_line(self, model_path: str) -> str:
        """One line for a POSIX shell."""
        return shlex.join(["sglang", "serve", "--model-path", model_path, *self.argv])

    def options(self) -> tuple[tuple[str, ...], ...]:
        """The tokens grouped: each option with its values."""
        grouped: list[list[str]] = []
        for token in self.argv:
            if token.startswith("--") or not grouped:
                grouped.append([])
            grouped[-1].append(token)
        return tuple(tuple(group) for group in grouped)


def export_plan(
    plan: Plan,
    model: ModelSpec,
    *,
    target: str = RECORDED_TARGET,
    assumed: AssumedFlags | None = None,
    allow_loss: bool = False,
) -> Export:
    """The command line that asks ``target`` for ``plan``.

    Every component's mode is named, every knob of a streamed component is written as an integer or a word.

    Args:
        plan: the decision.
        model: the model it is for.
        target: one of ``dialects.DIALECTS``.
        assumed: every other switch that the prediction assumes, with its notes (see ``recipe_flags``).
        allow_loss: export even if the target would run a component differently; each difference becomes a note.

    Raises:
        PlanError: the plan is for another model.
        FlagError: unknown target, a name the server cannot be told, contradictory assumed flags, or a plan that the
            target cannot express.
    """
    dialect = find_dialect(target)
    plan.check_fits_model(model)
    for placement in plan.placements:
        if placement.component in PURE_GROUP_WORDS or not _EXACT_NAME.fullmatch(placement.component):
            raise FlagError(
                f"the server cannot be told about a component named {placement.component!r}: it matches lower-case "
                "names with underscores"
            )
    extra_flags, extra_notes = (assumed.flags, assumed.notes) if assumed else ((), ())
    _check_extra_flags(extra_flags, plan)
    spelling = spell(plan, model, dialect)
    if spelling.losses and not allow_loss:
        raise InexpressibleError(
            f"{target} cannot express this plan: {'; '.join(spelling.losses)}. Choose another target or a plan without "
            "these settings, or allow the loss (autotune export --allow-loss)"
        )
    return Export(
        target=target,
        argv=(*spelling.argv, *extra_flags),
        notes=(*spelling.losses, *spelling.notes, *_context_notes(plan, dialect), *extra_notes),
    )


def _context_notes(plan: Plan, dialect: Dialect) -> list[str]:
    notes = []
    if plan.engine != dialect.target:
        notes.append(f"the plan's figures are for {plan.engine}; {dialect.target} was not simulated")
    if not dialect.is_recorded:
        notes.append(f"{dialect.target}: only its options are known ({dialect.evidence}); its schedule is not recorded")
    if not plan.explicit:
        notes.append(
            "the plan is the server's own choice; named by flags, the text encoder's head is no longer queued between "
            "requests"
        )
    return notes


def _check_extra_flags(extra_flags: Sequence[str], plan: Plan) -> None:
    given: dict[str, str] = {}
    for position, token in enumerate(extra_flags):
        if not token.startswith("--"):
            continue
        name, separator, value = token.partition("=")
        if name in PLACEMENT_OPTIONS:
            raise FlagError(f"{name} is decided by the plan: leave it out of the assumed flags")
        if name in given:
            raise FlagError(f"{name} is given twice in the assumed flags")
        following = extra_flags[position + 1] if position + 1 < len(extra_flags) else "--"
        given[name] = value if separator else following
    wants_fsdp = _FSDP in given and given[_FSDP].lower() != "false"
    not_resident = [p.component for p in plan.placements if p.mode is not Mode.RESIDENT]
    if wants_fsdp and not_resident:
        raise FlagError(
            f"{_FSDP} shards resident components only and contradicts the plan for {', '.join(not_resident)}: leave "
            "it out"
        )
