"""The schedule of ``topup`` beside that of the server, at equal device bytes, and beside what no schedule can beat.

Compared: steady times of one stack's passes under ``sglang@0.5.23`` and under ``topup``, both from the replay. For
every placement of the server's the placement of ``topup`` with the same residents and policy and the most prefetch is
taken whose peak of streamed and resident bytes, over load and requests, is not above the server's.

Limits, from weak to strong assumptions:

- *plain*: the larger of compute and copies (``autotune.bounds``), whatever the memory;
- *any order*: what a window of so many streamed bytes allows, in whatever order layers are copied. Between the end of
  one run and the beginning of a later one, all that was not on the device must be copied, and while the first one runs
  no more can be there than whole layers that fit beside it;
- *in order*: the earliest schedule within the window that copies layers in running order, which for equal layers is the
  earliest of all.

Whole requests are compared, too, for uses of few and of many passes: there the copies before the first pass count, and
those that a use queues for a pass that does not come.

No replayed schedule may be faster than its limit: the benchmark checks that, too. The window *allows* the plain bound
where the limit of any order is not above it. Grid: equal layers of every length, residency, prefetch, policy and ratio
of copy to compute below; then random unequal layers. Nothing is timed; the same arguments give the same result. The
last line is one JSON object; exit status 1 if ``topup`` loses on equal layers or a limit is broken.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from reporting import describe_command, finish
from toy_models import builders
from window_bounds import compute_any_order_bound_s, compute_in_order_s

from autotune.bounds import compute_steady_bound_s
from autotune.evaluate import Evaluator
from runtime.plan import Placement
from runtime.residency import Policy, streamed_layers

LENGTHS = (4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 60)
PREFETCHES = (1, 2, 3, 4, 6, 8, 16, 32)
RATIOS = (0.25, 1 / 3, 0.5, 0.75, 1.0, 4 / 3, 2.0, 3.0, 4.0)
UNEQUAL_CASES = 2_000
REQUEST_PASSES = (1, 2, 4, 8, 20, 49)
TOPUP = "topup"
CLOSE_RATIO, LOSS_RATIO = 0.97, 0.01
_EPSILON = 1e-9
_PASSES = 80  # the replay extends them by itself once they repeat


@dataclass(frozen=True, kw_only=True)
class Layers:
    """One stack: milliseconds of compute and copy of each layer."""

    compute_ms: tuple[float, ...]
    copy_ms: tuple[float, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each layer, as the toy models have them."""
        return tuple(round(ms * builders.UNITS_PER_MS) for ms in self.copy_ms)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One placement of the server's, the matching one of ``topup`` (None if none fits), and the limits of its window.

    Attributes:
        layers, placement: what was asked for.
        server_s, server_bytes: a steady pass of the server's schedule, and its peak.
        prefetch, topup_s, topup_bytes: the placement of ``topup`` that was chosen, with the same figures.
        plain_s, any_order_s, in_order_s: see the module; for the window that ``topup`` really takes.
        in_order_at_server_bytes_s: the same for all the bytes that the server takes. Where ``topup`` takes fewer, the
            next larger prefetch would take more: windows come in steps of whole layers.
    """

    layers: Layers
    placement: Placement
    server_s: float
    server_bytes: int
    prefetch: int | None
    topup_s: float
    topup_bytes: int
    plain_s: float
    any_order_s: float
    in_order_s: float
    in_order_at_server_bytes_s: float

    @property
    def loss_ratio(self) -> float:
        """How much slower ``topup`` is; negative where it is faster."""
        return self.topup_s / self.server_s - 1

    @property
    def window_allows(self) -> bool:
        """Whether the plain bound can be reached within the window, as far as is proven."""
        return self.any_order_s <= self.plain_s * (1 + _EPSILON)

    def describe(self) -> str:
        """The case in one line."""
        count = len(self.layers.copy_ms)
        return (
            f"{count} layers of {min(self.layers.copy_ms):g} to {max(self.layers.copy_ms):g} ms, "
            f"P={self.placement.prefetch} r={self.placement.resident} {self.placement.policy}: "
            f"{self.server_s * 1e3:.1f} ms in {self.server_bytes:,} bytes; topup P={self.prefetch}: "
            f"{self.topup_s * 1e3:.1f} ms in {self.topup_bytes:,} ({self.loss_ratio:+.2%}; "
            f"plain bound {self.plain_s * 1e3:.1f}, in order {self.in_order_s * 1e3:.1f})"
        )


@lru_cache(maxsize=256)
def make_evaluator(layers: Layers, engine: str, passes: int) -> Evaluator:
    """An evaluator of one stack in one use of ``passes`` passes."""
    stack = builders.ToyStack(compute_ms=layers.compute_ms, copy_ms=layers.copy_ms, passes=passes)
    toy = builders.ToyComponent(stacks={"blocks": stack}, is_dit=True)
    evaluator: Evaluator = builders.build_evaluator({"transformer": toy}, engine=engine)
    return evaluator


@lru_cache(maxsize=65536)
def replay(layers: Layers, engine: str, prefetch: int, resident: int, policy: Policy) -> tuple[float, int]:
    """Seconds of a steady pass, and the most bytes of the stack on the device."""
    placement = builders.streamed(prefetch=prefetch, resident=resident, policy=policy)
    evaluation = make_evaluator(layers, engine, _PASSES).evaluate(builders.build_plan(placement, engine=engine))
    return evaluation.uses[0].passes[0].steady_s, max(phase.streamed_bytes for phase in evaluation.phases)


def replay_request(layers: Layers, engine: str, placement: Placement, passes: int) -> float:
    """Seconds of a later request of one use of ``passes`` passes."""
    plan = builders.build_plan(placement, engine=engine)
    return make_evaluator(layers, engine, passes).evaluate(plan).latency_s


def find_most_prefetch(layers: Layers, resident: int, policy: Policy, allowed_bytes: int) -> int | None:
    """The largest prefetch of ``topup`` within ``allowed_bytes``; peaks never fall as prefetch rises."""
    fits, too_many = 0, len(layers.copy_ms) + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if replay(layers, TOPUP, middle, resident, policy)[1] <= allowed_bytes:
            fits = middle
        else:
            too_many = middle
    return fits or None


def compare(layers: Layers, prefetch: int, resident: int, policy: Policy) -> Comparison:
    """One placement of the server's with everything that it is compared with."""
    server_s, server_bytes = replay(layers, builders.SGLANG, prefetch, resident, policy)
    chosen = find_most_prefetch(layers, resident, policy, server_bytes)
    topup_s, topup_bytes = replay(layers, TOPUP, chosen, resident, policy) if chosen else (math.inf, 0)
    compute_s = tuple(ms / 1e3 for ms in layers.compute_ms)
    streams = set(streamed_layers(len(compute_s), resident, policy))
    sizes = tuple(size if layer in streams else 0 for layer, size in enumerate(layers.sizes))
    kept_bytes = sum(layers.sizes) - sum(sizes)
    rate = builders.RATES.pinned_bytes_per_s
    window = topup_bytes - kept_bytes if chosen else max(sizes)
    return Comparison(
        layers=layers,
        placement=builders.streamed(prefetch=prefetch, resident=resident, policy=policy),
        server_s=server_s,
        server_bytes=server_bytes,
        prefetch=chosen,
        topup_s=topup_s,
        topup_bytes=topup_bytes,
        plain_s=compute_steady_bound_s(compute_s, [size / rate for size in sizes]),
        any_order_s=compute_any_order_bound_s(compute_s, sizes, window, rate),
        in_order_s=compute_in_order_s(compute_s, sizes, window, rate),
        in_order_at_server_bytes_s=compute_in_order_s(compute_s, sizes, server_bytes - kept_bytes, rate),
    )


def compare_equal(lengths: Iterable[int], prefetches: Iterable[int], ratios: Iterable[float]) -> list[Comparison]:
    """The grid of equal layers."""
    found = []
    for count in lengths:
        for ratio in ratios:
            layers = Layers(compute_ms=(12.0,) * count, copy_ms=(12 * ratio,) * count)
            for resident in sorted({0, 1, count // 4, count // 2, 3 * count // 4, count - 1}):
                for prefetch in (one for one in prefetches if one <= count):
                    found += [compare(layers, prefetch, resident, policy) for policy in Policy]
    return found


def compare_unequal(cases: int, seed: int = 1) -> list[Comparison]:
    """Random stacks: sizes uniform, log-normal, or few large ones among small ones; compute equal or random."""
    draw = random.Random(seed)
    found = []
    for _ in range(cases):
        count = draw.randint(4, 40)
        kind = draw.choice(("uniform", "log-normal", "few large"))
        if kind == "uniform":
            copies = [draw.randint(1, 40) for _ in range(count)]
        elif kind == "log-normal":
            copies = [max(1, round(10 * draw.lognormvariate(0, 0.7))) for _ in range(count)]
        else:
            copies = [draw.choice((5, 5, 5, 5, 40)) for _ in range(count)]
        computes = [draw.randint(1, 40) for _ in range(count)] if draw.random() < 0.3 else [10] * count
        scale = sum(copies) / draw.choice((*RATIOS, 0.9, 1.1)) / sum(computes)
        layers = Layers(compute_ms=tuple(round(ms * scale, 3) for ms in computes), copy_ms=tuple(map(float, copies)))
        resident = draw.choice((0, 0, draw.randint(1, count - 1), count // 2))
        prefetch = min(count, draw.choice((1, 1, 2, 3, 4, 8)))
        found.append(compare(layers, prefetch, resident, draw.choice(list(Policy))))
    return found


def compare_requests(equal: Sequence[Comparison], passes: int) -> dict[str, object]:
    """Whole requests of the placements in ``equal``, with the same prefetch of ``topup`` as for steady passes."""
    losses = []
    for one in equal:
        ours = replace(one.placement, prefetch=one.prefetch or 1)
        server_s = replay_request(one.layers, builders.SGLANG, one.placement, passes)
        losses.append(replay_request(one.layers, TOPUP, ours, passes) / server_s - 1)
    return {
        "passes": passes,
        "cases": len(losses),
        "faster": sum(loss < -_EPSILON for loss in losses),
        "equal": sum(abs(loss) <= _EPSILON for loss in losses),
        "slower": sum(loss > _EPSILON for loss in losses),
        "mean_speedup_ratio": sum(1 / (1 + loss) - 1 for loss in losses) / len(losses),
        "most_loss_ratio": max(losses),
    }


def summarise(name: str, found: Sequence[Comparison]) -> dict[str, object]:
    """Counts, and the losses in words."""
    fitting = [one for one in found if one.prefetch is not None]
    losses = sorted((one for one in fitting if one.loss_ratio > _EPSILON), key=lambda one: -one.loss_ratio)
    allowed = [one for one in fitting if one.window_allows]
    gains = [1 / (1 + one.loss_ratio) - 1 for one in fitting]
    summary: dict[str, object] = {
        "cases": len(found),
        "nothing_fits": len(found) - len(fitting),
        "faster": sum(one.loss_ratio < -_EPSILON for one in fitting),
        "equal": sum(abs(one.loss_ratio) <= _EPSILON for one in fitting),
        "slower": len(losses),
        "slower_by_more_than_1_percent": sum(one.loss_ratio > LOSS_RATIO for one in losses),
        "server_faster_than_in_order_at_its_bytes": sum(
            one.server_s < one.in_order_at_server_bytes_s * (1 - 1e-6) for one in found
        ),
        "mean_speedup_ratio": sum(gains) / len(gains),
        "most_speedup_ratio": max(gains),
        "losses": [one.describe() for one in losses],
        "topup": _count_reached(fitting, allowed, [one.topup_s for one in fitting]),
        "server": _count_reached(fitting, allowed, [one.server_s for one in fitting]),
        "limits_broken": sum(
            one.topup_s < max(one.any_order_s, one.plain_s) * (1 - _EPSILON)
            or one.topup_s < one.in_order_s * (1 - 1e-6)
            or one.server_s < one.plain_s * (1 - _EPSILON)
            for one in fitting
        ),
    }
    print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in summary.items() if key != "losses"))
    for loss in summary["losses"][:20]:
        print(f"  slower: {loss}")
    return summary


def _count_reached(
    fitting: Sequence[Comparison], allowed: Sequence[Comparison], times_s: Sequence[float]
) -> dict[str, int]:
    """How many reach the limits: exactly, or to 97 %."""
    time_of = {id(one): time_s for one, time_s in zip(fitting, times_s, strict=True)}

    def count(cases: Iterable[Comparison], limit: str, ratio: float) -> int:
        return sum(getattr(one, limit) >= ratio * time_of[id(one)] for one in cases)

    exactly = 1 - 1e-6
    return {
        "window_allows_plain_bound": len(allowed),
        "of_these_97_percent_of_plain": count(allowed, "plain_s", CLOSE_RATIO),
        "of_these_plain_exactly": count(allowed, "plain_s", exactly),
        "plain_exactly": count(fitting, "plain_s", exactly),
        "any_order_97_percent": count(fitting, "any_order_s", CLOSE_RATIO),
        "any_order_exactly": count(fitting, "any_order_s", exactly),
        "in_order_exactly": count(fitting, "in_order_s", exactly),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, say it, and print one JSON object last."""
    parser = argparse.ArgumentParser(description="The topup schedule against the server's, at equal device bytes.")
    parser.add_argument("--unequal", type=int, default=UNEQUAL_CASES, help="random stacks of unequal layers")
    parser.add_argument("--seed", type=int, default=1, help="of the random stacks")
    parser.add_argument("--out", type=Path, help="where to save the result")
    parser.add_argument("--quick", action="store_true", help="a small grid")
    settings = parser.parse_args(arguments)
    if settings.quick:
        equal = compare_equal((4, 7), (1, 3), (0.5, 1.0, 2.0))
        unequal = compare_unequal(20, settings.seed)
    else:
        equal = compare_equal(LENGTHS, PREFETCHES, RATIOS)
        unequal = compare_unequal(settings.unequal, settings.seed)
    result = {
        "benchmark": "schedules",
        **describe_command(__file__, arguments),
        "seed": settings.seed,
        "equal_layers": summarise("equal layers", equal),
        "unequal_layers": summarise("unequal layers", unequal),
        "whole_requests": [compare_requests(equal, passes) for passes in REQUEST_PASSES],
    }
    for row in result["whole_requests"]:
        print("whole requests: " + ", ".join(f"{key} {value}" for key, value in row.items()))
    finish(result, settings.out)
    failed = (
        result["equal_layers"]["slower"]
        or result["equal_layers"]["nothing_fits"]
        or any(result[part]["limits_broken"] for part in ("equal_layers", "unequal_layers"))
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
