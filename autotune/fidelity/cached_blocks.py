"""What torch's allocator still holds of weights that were given back: part of a counted peak, not of what a plan needs.

Every stack of SGLang-diffusion copies on a stream of its own (``layerwise_offload.py``: each manager makes its
``copy_stream``), and the allocator keeps freed blocks apart by stream. What one component streamed therefore stays
reserved beside what the next one streams, until the server empties the cache: after the use of a diffusion transformer
that gave its weights back (``component_manager.py``: ``_empty_cache_after_large_release``, for uses that are
``memory_intensive``) and after a request (``gpu_worker.py``), in every release from 0.5.14 to 0.5.23. Short of memory,
the allocator gives these blocks back by itself, so that no cap has to be charged with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.evaluate import Evaluator
from autotune.model_facts import ModelFacts
from autotune.phases import REQUEST_LABELS
from runtime.plan import Plan
from runtime.residency import Mode


def list_window_starts(facts: ModelFacts, plan: Plan) -> tuple[int, ...]:
    """Per phase of the life, the phase since whose beginning the cache has not been emptied."""
    starts = [0]
    for _ in REQUEST_LABELS:
        start = len(starts)
        for use in facts.request.uses:
            starts.append(start)
            is_dit = facts.model.component(use.component).is_dit
            if is_dit and plan.placement(use.component).mode is not Mode.RESIDENT:
                start = len(starts)
            starts.append(start)
        starts.append(start)
    return tuple(starts)


def keep_largest(phases: Sequence[int], starts: Sequence[int]) -> tuple[int, ...]:
    """Per phase, the most of ``phases`` since the cache was emptied."""
    return tuple(max(phases[start : index + 1]) for index, start in enumerate(starts))


def count_reserved_weights(evaluator: Evaluator, plan: Plan, starts: Sequence[int]) -> tuple[int, ...]:
    """Per phase of the life, bytes reserved for the weights of all components."""
    held = [
        keep_largest(evaluator.component_phases(index, plan.placement(component.name), explicit=plan.explicit), starts)
        for index, component in enumerate(evaluator.cost_model.facts.model.components)
    ]
    return tuple(map(sum, zip(*held, strict=True)))
