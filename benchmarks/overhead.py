"""What streaming costs the host per layer, where computing costs next to nothing: the executor beside diffusers.

Measured: one pass over a stack of transformer-like blocks with 18 small parameters each, as wall-clock and as CPU time
of the host's thread, for

- ``plain``: the module as it is;
- ``session real``: streamed by ``Session`` (one layer ahead, pinned) on an emulated device with links that take no time
  and the real clock, whose copy thread shares the interpreter;
- ``session virtual``: the same on the virtual clock, whose copies are made by the host's thread;
- ``session resident``: everything resident under ``Session``;
- ``diffusers block``, ``diffusers leaf``: ``diffusers.hooks.apply_group_offloading`` with one block per group, and by
  leaf; from the CPU to the CPU, without a stream, so that nothing is copied at all.

Protocol: all variants are set up in one process on equal modules; rounds are interleaved, and in each of them every
variant makes one request. The first pass of a request, which begins it, is not counted; the last one, in which
``Session`` ends and measures it, is timed apart. The quickest other pass of a round is its time; overhead = (variant
- plain) / blocks within one round, because shared machines change speed in between; reported are the median and the
quartiles over the rounds, and each overhead as a multiple of diffusers' by blocks. Outputs of all variants must be
bit-identical. One torch thread. ``--profile`` adds where the time of the virtual clock's session goes, by cProfile. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import copy
import cProfile
import io
import math
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from diffusers.hooks import apply_group_offloading
from one_module import plan_module
from reporting import describe_command, describe_machine, finish
from torch import nn

from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.plan import Placement
from runtime.residency import Mode
from runtime.session import Session

BLOCKS, WIDTH, TOKENS = 40, 32, 4
ROUNDS, PASSES = 40, 5
BLOCKWISE = "diffusers block"
UNPACED = LinkRates(
    pinned_bytes_per_s=math.inf,
    pageable_bytes_per_s=math.inf,
    d2h_bytes_per_s=math.inf,
    disk_bytes_per_s=math.inf,
    page_cache=PageCache.ALL,
)


class Block(nn.Module):
    """Attention with normalised queries and keys, then a feed-forward network: 18 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm_q, self.norm_k = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        normed = self.norm_1(x)
        query, key = self.norm_q(self.to_q(normed)), self.norm_k(self.to_k(normed))
        x = x + self.to_out(torch.softmax(query @ key.transpose(-1, -2), -1) @ self.to_v(normed))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm_2(x))))


class Stack(nn.Module):
    """Blocks in a row."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One pass."""
        for block in self.blocks:
            x = block(x)
        return x


@dataclass
class Variant:
    """One way to run the module, with the seconds of its quickest pass in each round."""

    name: str
    module: nn.Module
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    ending_s: list[float] = field(default_factory=list)

    def run_request(self, x: torch.Tensor, passes: int) -> torch.Tensor:
        """One request; returns its output."""
        y, walls_s, cpus_s = x, [], []
        for _ in range(passes):
            begin_s, begin_cpu_s = time.perf_counter(), time.thread_time()
            y = self.module(x)
            cpus_s.append(time.thread_time() - begin_cpu_s)
            walls_s.append(time.perf_counter() - begin_s)
        # The first pass begins the request, the last one ends and measures it.
        self.wall_s.append(min(walls_s[1:-1]))
        self.cpu_s.append(min(cpus_s[1:-1]))
        self.ending_s.append(walls_s[-1] - self.wall_s[-1])
        return y


def summarise(variants: Sequence[Variant], blocks: int) -> list[dict[str, object]]:
    """What every variant takes above the plain module, round by round."""
    plain = variants[0]
    (blockwise,) = [one for one in variants if one.name == BLOCKWISE]
    rows: list[dict[str, object]] = []
    for variant in variants:
        extra_s = [one - base for one, base in zip(variant.wall_s, plain.wall_s, strict=True)]
        extra_cpu_s = [one - base for one, base in zip(variant.cpu_s, plain.cpu_s, strict=True)]
        others_s = [one - base for one, base in zip(blockwise.wall_s, plain.wall_s, strict=True)]
        low_s, _, high_s = statistics.quantiles(extra_s, n=4)
        rows.append(
            {
                "variant": variant.name,
                "pass_us": statistics.median(variant.wall_s) * 1e6,
                "overhead_per_layer_us": statistics.median(extra_s) / blocks * 1e6,
                "overhead_quartiles_us": [low_s / blocks * 1e6, high_s / blocks * 1e6],
                "cpu_overhead_per_layer_us": statistics.median(extra_cpu_s) / blocks * 1e6,
                "overhead_to_diffusers_block": statistics.median(
                    one / other for one, other in zip(extra_s, others_s, strict=True)
                ),
                "end_of_request_per_layer_us": statistics.median(variant.ending_s) / blocks * 1e6,
            }
        )
    return rows


@contextmanager
def open_variants(blocks: int, passes: int) -> Iterator[list[Variant]]:
    """Every variant on a module of its own with equal weights."""
    torch.manual_seed(0)
    plain = Stack(blocks).eval().requires_grad_(False)
    with ExitStack() as scope:

        def under_session(name: str, clock: ClockKind, placement: Placement) -> Variant:
            module = copy.deepcopy(plain)
            executable = plan_module(module, placement, stacks={"blocks": "blocks"}, passes=passes)
            device = EmulatedDevice(rates=UNPACED, clock=clock)
            scope.callback(device.close)
            scope.enter_context(Session({"transformer": module}, executable, device=device))
            return Variant(name, module)

        def under_diffusers(name: str, **settings: object) -> Variant:
            module = copy.deepcopy(plain)
            apply_group_offloading(module, onload_device="cpu", offload_device="cpu", **settings)
            return Variant(name, module)

        streamed = Placement(component="transformer", mode=Mode.LAYERWISE_OFFLOAD)
        resident = Placement(component="transformer", mode=Mode.RESIDENT)
        yield [
            Variant("plain", plain),
            under_session("session real", ClockKind.REAL, streamed),
            under_session("session virtual", ClockKind.VIRTUAL, streamed),
            under_session("session resident", ClockKind.VIRTUAL, resident),
            under_diffusers(BLOCKWISE, offload_type="block_level", num_blocks_per_group=1),
            under_diffusers("diffusers leaf", offload_type="leaf_level"),
        ]


def measure(blocks: int, rounds: int, passes: int) -> list[dict[str, object]]:
    """All variants, round after round."""
    x = torch.randn(1, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    with open_variants(blocks, passes) as variants, torch.inference_mode():
        expected = variants[0].module(x)
        for number in range(rounds):
            first = number % len(variants)
            for variant in (*variants[first:], *variants[:first]):
                if not torch.equal(variant.run_request(x, passes), expected):
                    raise SystemExit(f"{variant.name} computes something else than the plain module")
        return summarise(variants, blocks)


def profile_session(blocks: int, passes: int, lines: int) -> str:
    """Where the time of a streamed request on the virtual clock goes, by a function's own time."""
    x = torch.randn(1, TOKENS, WIDTH)
    with open_variants(blocks, passes) as variants, torch.inference_mode():
        (variant,) = [one for one in variants if one.name == "session virtual"]
        variant.run_request(x, passes)
        profile = cProfile.Profile()
        profile.runcall(_repeat, lambda: variant.run_request(x, passes), 10)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(lines)
    return text.getvalue()


def _repeat(run: Callable[[], object], times: int) -> None:
    for _ in range(times):
        run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, say it, and print one JSON object last."""
    parser = argparse.ArgumentParser(description="Host-side overhead per layer.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="requests of every variant")
    parser.add_argument("--profile", action="store_true", help="print where the time goes, too")
    parser.add_argument("--out", type=Path, help="where to save the result")
    parser.add_argument("--quick", action="store_true", help="few blocks, three rounds")
    settings = parser.parse_args(arguments)
    torch.set_num_threads(1)
    blocks, rounds = (4, 3) if settings.quick else (BLOCKS, settings.rounds)
    rows = measure(blocks, rounds, PASSES)
    print(f"{'variant':<18} {'pass':>8} {'overhead a layer':>17} {'CPU':>7} {'to diffusers':>13} {'end':>7}   (us)")
    for row in rows:
        print(
            f"{row['variant']:<18} {row['pass_us']:8.0f} {row['overhead_per_layer_us']:17.1f} "
            f"{row['cpu_overhead_per_layer_us']:7.1f} {row['overhead_to_diffusers_block']:13.2f} "
            f"{row['end_of_request_per_layer_us']:7.1f}"
        )
    if settings.profile:
        print(profile_session(blocks, PASSES, 45))
    result = {
        "benchmark": "overhead",
        **describe_command(__file__, arguments),
        **describe_machine(),
        "blocks": blocks,
        "parameters_per_block": sum(1 for _ in Block().parameters()),
        "rounds": rounds,
        "passes_per_round": PASSES,
        "variants": rows,
    }
    finish(result, settings.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
