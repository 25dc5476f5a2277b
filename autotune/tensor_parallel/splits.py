"""How the server divides a model between the ranks of tensor parallelism: the vocabulary of the rules.

A rank is one process with one card. Matrix products are divided by outputs (column parallel) or by inputs (row
parallel); a rank keeps its share of the weights, everything else whole. After each row-parallel product the ranks add
up their partial results (an all-reduce).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autotune.workload import Workload
from runtime.errors import InputError

CountBytes = Callable[[Workload], int]
"""Bytes of one tensor under a workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSplit:
    """How the layers of one stack are divided.

    Attributes:
        kept_bytes: weights of a layer that every rank holds whole, as run: norms, biases of row-parallel products.
        kept_product_ratio: share of what its products read and write besides weights that every rank moves whole.
        kept_other_ratio: the same of all other operations.
        reduced_bytes: what one all-reduce adds up; None for layers that never run.
        reductions: all-reduces of one layer.
    """

    kept_bytes: int
    kept_product_ratio: float = 1.0
    kept_other_ratio: float = 1.0
    reduced_bytes: CountBytes | None = None
    reductions: int = 2

    def __post_init__(self) -> None:
        if self.kept_bytes < 0:
            raise InputError(f"kept_bytes is {self.kept_bytes}: bytes are not negative")
        for name in ("kept_product_ratio", "kept_other_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}: a share lies between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSplit:
    """How one component is divided.

    Attributes:
        widths: what the number of ranks must divide, by name: heads, feed-forward and output widths.
        stacks: every stack of the component.
        kept_rest_bytes: weights outside the stacks that every rank holds whole; None where all of them are.
        activation_ratios: ranks -> share of the activation peak of one card; 1 for other numbers.
        gathered_bytes: stack -> what the ranks gather in each pass over it outside its layers.
    """

    widths: Mapping[str, int]
    stacks: Mapping[str, StackSplit]
    kept_rest_bytes: int | None = None
    activation_ratios: Mapping[int, float] = field(default_factory=dict)
    gathered_bytes: Mapping[str, CountBytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TileSplit:
    """A decoder that every rank holds whole, of whose tiles each rank decodes every N-th.

    Attributes:
        tiles: tiles of one window.
        tiles_per_pass: how many one pass decodes at most.
    """

    tiles: Callable[[Workload], int]
    tiles_per_pass: Callable[[Workload], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSplit:
    """How one model is divided, component by component.

    Attributes:
        model: its name in the catalog.
        divided: components whose weights are divided.
        tiled: components whose tiles are.
        whole: components that every rank holds and runs whole.
        notes: what is assumed and what is left out, one sentence each.
    """

    model: str
    divided: Mapping[str, ComponentSplit]
    tiled: Mapping[str, TileSplit]
    whole: frozenset[str]
    notes: tuple[str, ...] = ()
