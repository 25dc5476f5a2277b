"""Finds a catalog model by name."""

from __future__ import annotations

import difflib

from autotune.catalog.entry import CatalogEntry
from autotune.catalog.flux import FLUX_1_DEV
from autotune.catalog.hunyuan_video import HUNYUAN_VIDEO
from autotune.catalog.ltx_2 import LTX_2
from autotune.catalog.minimax_h3 import H3
from autotune.catalog.qwen_image import QWEN_IMAGE
from autotune.catalog.wan2_1_t2v_1_3b import WAN2_1_T2V_1_3B
from autotune.catalog.wan2_2_t2v_a14b import WAN2_2_T2V_A14B
from autotune.catalog.z_image import Z_IMAGE_TURBO
from runtime.errors import InputError

CATALOG: tuple[CatalogEntry, ...] = (
    H3,
    QWEN_IMAGE,
    FLUX_1_DEV,
    WAN2_2_T2V_A14B,
    WAN2_1_T2V_1_3B,
    LTX_2,
    Z_IMAGE_TURBO,
    HUNYUAN_VIDEO,
)


def list_model_names() -> tuple[str, ...]:
    """The primary name of every model, in the order of the catalog."""
    return tuple(entry.name for entry in CATALOG)


def find_model(name: str) -> CatalogEntry:
    """The entry called ``name`` (or one of its aliases), whatever its case.

    Raises:
        InputError: no model has that name; the message lists the names and the closest match.
    """
    spellings = {alias.casefold(): entry for entry in CATALOG for alias in entry.names}
    wanted = name.strip().casefold()
    if wanted in spellings:
        return spellings[wanted]
    close = difflib.get_close_matches(wanted, spellings, n=1)
    hint = f" (did you mean {spellings[close[0]].name}?)" if close else ""
    raise InputError(f"unknown model {name!r}{hint}: the catalog has {', '.join(list_model_names())}")
