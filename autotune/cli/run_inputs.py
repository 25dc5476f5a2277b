"""Reads what a planning command works on from the text of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autotune.cli.console import print_error
from autotune.workflows import inputs as planning
from autotune.workflows.host import HostWish
from autotune.workflows.inputs import Inputs, InputWish
from autotune.workflows.ranks import RankWish
from autotune.workflows.wish_text import optional_bytes, optional_rate


def read_inputs(  # noqa: PLR0913 - one parameter per option
    *,
    model: str | None,
    profile: Path | None,
    node_profile: Path | None = None,
    device: str | None,
    vram_cap: str | None,
    host: HostWish,
    link_rate: str | None,
    ranks: RankWish,
    variant: str | None,
    shape: Mapping[str, Any],
    refresh: bool,
    notify: Callable[[str], None],
    is_compared: bool = False,
) -> Inputs:
    """See ``autotune.workflows.inputs.read_inputs``; how a checkpoint was understood is told.

    Raises:
        InputError: as there.
        UnitError: a size or a rate that is none.
        UnsupportedError: as there.
    """
    wish = InputWish(
        model=model,
        profile=profile,
        node_profile=node_profile,
        device=device,
        vram_cap_bytes=optional_bytes(vram_cap),
        host=host,
        pinned_bytes_per_s=optional_rate(link_rate),
        ranks=ranks,
        variant=variant,
        shape=shape,
        refresh=refresh,
        is_compared=is_compared,
    )
    found = planning.read_inputs(wish, notify)
    if found.model_path is not None:
        print_error(f"note: {found.facts.notes[0]}")
    return found
