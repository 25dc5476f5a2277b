"""Which components work in a stage of the server's pipelines. Pure.

Stages are named after their classes (``pipelines_core/stages`` of SGLang-diffusion 0.5.23): ``TextEncodingStage``,
``DenoisingStage``, ``DecodingStage``, with the model's name in front where it has its own, or ``denoising_stage`` where
one class occurs twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.export.component_groups import is_dit
from autotune.observed.perf_dump import StageTime

# Part of a stage's name -> parts of the names of the components that run in it; the first that fits counts.
_PARTS_OF_STAGES = (
    ("textconnector", ("connectors",)),
    ("textencoding", ("text_encoder",)),
    ("audioencoding", ("audio_vae",)),
    ("visualencoding", ("video_vae",)),
    ("denoising", ("transformer",)),
    ("decoding", ("vae", "vocoder")),
)


def is_denoising(stage: str) -> bool:
    """Whether ``stage`` is the one with the denoising steps."""
    return "denoising" in _plain(stage)


def name_components(stage: str, components: Sequence[str]) -> tuple[str, ...]:
    """Those of ``components`` that run in ``stage``; none for stages that prepare, and for unknown ones."""
    name = _plain(stage)
    for fragment, parts in _PARTS_OF_STAGES:
        if fragment in name:
            return tuple(component for component in components if any(part in component for part in parts))
    return ()


def list_denoisers(components: Iterable[str]) -> tuple[str, ...]:
    """The components whose passes are the denoising steps."""
    return tuple(component for component in components if is_dit(component))


def sum_uses(stages: Iterable[StageTime], components: Sequence[str]) -> dict[tuple[str, ...], float]:
    """Seconds of the components of ``stages``; where one stage runs several, their uses in all stages are one sum."""
    groups: list[tuple[set[str], float]] = []
    for stage in stages:
        names = set(name_components(stage.name, components))
        if not names:
            continue
        seconds = stage.seconds
        for group in [group for group in groups if group[0] & names]:
            groups.remove(group)
            names |= group[0]
            seconds += group[1]
        groups.append((names, seconds))
    return {tuple(name for name in components if name in names): seconds for names, seconds in groups}


def _plain(stage: str) -> str:
    return stage.replace("_", "").casefold()
