"""The switches besides placement that a prediction assumes, and what no switch can fix.

Source: SGLang-diffusion 0.5.23: server arguments, MiniMax-H3 pipeline and video-VAE configuration, sampling
parameters, layerwise manager. Options of older versions: their released wheels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.export.dialects import RECORDED_TARGET, find_dialect
from autotune.workload import Recipe
from runtime.errors import InexpressibleError

_H3 = re.compile(r"minimax[-_ ]?h3|\bh3\b", re.IGNORECASE)
_ONLINE_ADALN = "--minimax-h3-adaln-online"
_WITHOUT_ONLINE_ADALN = frozenset({"sglang@0.5.16", "sglang@0.5.17"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedFlags:
    """Tokens that fix what the prediction assumes, and sentences about what they do not fix."""

    flags: tuple[str, ...]
    notes: tuple[str, ...]


def recipe_flags(
    model_name: str,
    recipe: Recipe,
    target: str = RECORDED_TARGET,
    *,
    pins: bool = True,
    variant_flags: tuple[str, ...] = (),
    tp_size: int = 1,
) -> AssumedFlags:
    """Switches that make ``target`` run ``recipe``: pinned host copies, eager, one request at a time.

    ``pins`` says whether it may pin host memory; ``variant_flags`` are those of a variant of the model; ``tp_size`` is
    the number of GPUs, all of them ranks of tensor parallelism.

    On MiniMax-H3 the recipe decides how many decoder passes a request has. The server has no switch for the quality
    level, which is a field of each request (``lossless`` when absent); ``exact`` is therefore enforced by the memory
    performance mode, the one server-wide switch that decodes one tile per pass at every quality level.

    Raises:
        FlagError: unknown target.
    """
    dialect = find_dialect(target)
    is_h3 = _H3.search(model_name) is not None
    memory_mode = is_h3 and recipe is Recipe.EXACT
    flags = [
        *("--performance-mode", "memory" if memory_mode else "auto"),
        *("--num-gpus", str(tp_size)),
        # The server gives the GPUs that tensor parallelism leaves to sequence parallelism.
        *(("--tp-size", str(tp_size)) if tp_size > 1 else ()),
        *("--pin-cpu-memory", "true" if pins else "false"),
        *("--use-fsdp-inference", "false"),
        *("--enable-torch-compile", "false"),
        *("--enable-breakable-cuda-graph", "false"),
        *("--batching-max-size", "1"),
    ]
    notes = [
        "the prediction assumes that SGLANG_CACHE_DIT_ENABLED is not set",
        "serve warms up with a synthetic request, so a user's first request is already a later one",
    ]
    flags += variant_flags
    if is_h3 and target not in _WITHOUT_ONLINE_ADALN and _ONLINE_ADALN not in variant_flags:
        flags += [_ONLINE_ADALN, "false"]
    if _ONLINE_ADALN in variant_flags and target in _WITHOUT_ONLINE_ADALN:
        raise InexpressibleError(f"{target} has no {_ONLINE_ADALN}: plan without that variant, or for a newer version")
    if memory_mode:
        notes += _memory_mode_notes()
    elif recipe is Recipe.EXACT:
        notes.append("send quality=exact with every request: no switch of the server fixes it for this model")
    else:
        notes.append("requests must keep the default quality (lossless)")
    if is_h3 and not dialect.is_recorded:
        notes.append(f"batching of decoder tiles by quality level is known of {RECORDED_TARGET} only, not of {target}")
    return AssumedFlags(flags=tuple(flags), notes=tuple(notes))


def _memory_mode_notes() -> list[str]:
    return [
        "--performance-mode memory decodes one tile and one window per pass at every quality level",
        "it also parks: after a use, a streamed component's weights outside its layers move to pageable host memory "
        "when they exceed a tenth of the free device memory, and come back, blocking, before the next use; the peak "
        "is lower than predicted and each use starts later by that copy",
        "it also changes the placement of components that are not named; the exported line names all of them",
        "quality=exact in a request decodes the same way without parking, and turns the fast kernels of other "
        "components off as well",
    ]
