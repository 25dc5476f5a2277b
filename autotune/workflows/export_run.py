"""Exports a plan document with the switches that its prediction assumes."""

from __future__ import annotations

from autotune.catalog.registry import find_model
from autotune.export.dialects import RECORDED_TARGET, find_dialect
from autotune.export.recipe import recipe_flags
from autotune.export.sglang import Export, export_plan
from autotune.workload import Recipe
from runtime.errors import InputError, UnsupportedError
from runtime.plan_document import PlanDocument


def export_document(
    document: PlanDocument,
    *,
    target: str = RECORDED_TARGET,
    allow_loss: bool = False,
    model_path: str | None = None,
) -> tuple[Export, str]:
    """The command for ``target`` and the model path that it serves.

    ``sglang`` alone means the version whose behaviour is recorded.

    Raises:
        FlagError: unknown target, or one that cannot express the plan.
        UnsupportedError: the plan is for an engine that is no server.
    """
    if not is_server(document.plan.engine):
        raise UnsupportedError(
            f"the plan is for the engine {document.plan.engine!r}, which is no server: make one with --engine "
            f"{RECORDED_TARGET} to export flags"
        )
    target = find_dialect(target).target
    try:
        recipe = Recipe(str(document.workload["recipe"]))
    except ValueError:
        known = ", ".join(Recipe)
        raise InputError(f"the plan's recipe is {document.workload['recipe']!r}: known are {known}") from None
    assumed = recipe_flags(
        document.model.name,
        recipe,
        target,
        pins=document.host.pins,
        variant_flags=_variant_flags(document),
        tp_size=document.tp_size,
    )
    if model_path is not None and (not model_path.strip() or model_path.startswith("-")):
        raise InputError(f"--model-path is {model_path!r}: give a folder or a hub repository")
    exported = export_plan(document.plan, document.model, target=target, assumed=assumed, allow_loss=allow_loss)
    return exported, model_path or default_model_path(document.model.name)


def _variant_flags(document: PlanDocument) -> tuple[str, ...]:
    """What the server's command line needs for the plan's variant."""
    if not document.variant:
        return ()
    return find_model(document.model.name).find_variant(document.variant).flags


def is_server(engine: str) -> bool:
    """Whether plans for ``engine`` have flags."""
    return engine.startswith("sglang@")


def default_model_path(model: str) -> str:
    """The hub repository of a catalog model; the name itself for any other."""
    try:
        entry = find_model(model)
    except InputError:
        return model
    return next((alias for alias in entry.aliases if "/" in alias), model)
