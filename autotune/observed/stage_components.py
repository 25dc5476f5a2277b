"""Which components work in a stage of the server's pipelines. Pure.

Stages are named after their classes (``pipelines_core/stages`` of SGLang-diffusion 0.5.23): ``TextEncodingStage``,
``DenoisingStage``, ``DecodingStage``, with the model's name in front where it has its own, or ``denoising_stage`` where
one class occurs twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.observed.perf_dump import StageTime

_DECODERS = ("vae", "vocoder")


def is_denoising(stage: str) -> bool:
    """Whether ``stage`` is the one with the denoising steps."""
    return "denoising" in _plain(stage)


def name_components(stage: str, components: Sequence[str]) -> tuple[str, ...]:
    """Those of ``components`` that run in ``stage``; none for stages that prepare, and for unknown ones."""
    name = _plain(stage)
    if "textconnector" in name:
        return _pick(components, ("connectors",))
    if "textencoding" in name:
        return _pick(components, ("text_encoder",))
    if "beforedenoising" in name:
        return ()
    if "denoising" in name:
        return list_denoisers(components)
    if "audioencoding" in name:
        return _pick(components, ("audio_vae",))
    if "visualencoding" in name or "vaeencoding" in name:
        return tuple(component for component in components if component in ("vae", "video_vae"))
    return _pick(components, _DECODERS) if "decoding" in name else ()


def list_denoisers(components: Iterable[str]) -> tuple[str, ...]:
    """The components whose passes are the denoising steps."""
    return tuple(component for component in components if component.startswith("transformer"))


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


def _pick(components: Sequence[str], parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(component for component in components if any(part in component for part in parts))


def _plain(stage: str) -> str:
    return stage.replace("_", "").casefold()
