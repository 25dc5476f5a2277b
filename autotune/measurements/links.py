"""One rate per link from timed copies of several sizes: what a request's own copies reach. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.measurements.records import LinkKind, LinkRecord
from autotune.model_facts import ModelFacts
from runtime.errors import ProfileError

Curve = Sequence[tuple[int, float]]
"""Bytes of a copy and its seconds, by size; at least one, no size twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """The rate at which the copies of a request go over one link.

    Attributes:
        bytes_per_s: all bytes through all seconds.
        sizes: how many sizes were timed.
        count: the least number of samples of a size.
        spread_ratio: the widest interval of a size, as a share of its median.
    """

    bytes_per_s: float
    sizes: int
    count: int
    spread_ratio: float


def interpolate_s(curve: Curve, size_bytes: float) -> float:
    """Seconds of a copy of ``size_bytes``, linear in size between timed sizes, and exact at them.

    Above the largest the rate of the largest holds. Below the smallest the line through the two smallest goes on, as
    long as that makes small copies slower than the rate of the smallest: a copy has a fixed cost, never a fixed gain.
    """
    sizes = [size for size, _ in curve]
    at = bisect_left(sizes, size_bytes)
    if at == len(curve):
        return curve[-1][1] * size_bytes / curve[-1][0]
    (upper, upper_s) = curve[at]
    if at > 0:
        lower, lower_s = curve[at - 1]
        return lower_s + (upper_s - lower_s) * (size_bytes - lower) / (upper - lower)
    proportional_s = upper_s * size_bytes / upper
    if size_bytes == upper or len(curve) == 1:
        return proportional_s
    (next_size, next_s) = curve[1]
    line_s = upper_s - (next_s - upper_s) * (upper - size_bytes) / (next_size - upper)
    return min(max(line_s, proportional_s), upper_s)


def list_streamed(facts: ModelFacts) -> Iterator[tuple[str, int, int]]:
    """Component, bytes and passes of every layer in every use of a request, were all of them streamed."""
    for use in facts.request.uses:
        component = facts.model.component(use.component)
        for group in use.groups:
            for stack in group.stacks:
                for layer in component.stack(stack).layers:
                    yield use.component, layer.run_bytes, group.passes


def weigh_copies(facts: ModelFacts) -> Mapping[int, int]:
    """Bytes that a request copies if everything streams, by size of one copy.

    Components without layers are copied whole, once per use.
    """
    weights: Counter[int] = Counter()
    for use in facts.request.uses:
        component = facts.model.component(use.component)
        if not component.max_layers:
            weights[component.run_bytes] += component.run_bytes
    for _, size_bytes, passes in list_streamed(facts):
        weights[size_bytes] += size_bytes * passes
    return {size: total for size, total in weights.items() if size > 0}


def weigh_moves(facts: ModelFacts) -> Mapping[int, int]:
    """Bytes that a request copies back if every component is moved whole, by size of one move."""
    weights: Counter[int] = Counter()
    for use in facts.request.uses:
        size = facts.model.component(use.component).run_bytes
        weights[size] += size
    return {size: total for size, total in weights.items() if size > 0}


def derive_link_rate(links: Sequence[LinkRecord], kind: LinkKind, weights: Mapping[int, int]) -> LinkRate | None:
    """The rate over the link ``kind`` of copies with ``weights``: bytes by size of one copy; None if never timed.

    Raises:
        ProfileError: the copies took no time.
    """
    timed = sorted((link for link in links if link.kind == kind), key=lambda link: link.size_bytes)
    if not timed:
        return None
    curve = [(link.size_bytes, link.timing.median_s) for link in timed]
    wanted = weights or {curve[-1][0]: curve[-1][0]}
    total_s = sum(total / size * interpolate_s(curve, size) for size, total in wanted.items())
    if total_s <= 0:
        raise ProfileError(f"the {kind} copies of the node profile took no time, which no link does: measure it again")
    return LinkRate(
        bytes_per_s=sum(wanted.values()) / total_s,
        sizes=len(timed),
        count=min(link.timing.count for link in timed),
        spread_ratio=max(link.timing.spread_ratio for link in timed),
    )
