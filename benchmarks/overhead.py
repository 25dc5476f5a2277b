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
``Session`` ends and measures it, is timed apart. Statistic: median over all other passes of all rounds, with the
quartiles. Overhead = (variant - plain) / blocks. Outputs of all variants must be bit-identical. One torch thread.
``--profile`` adds where the time of the virtual clock's session goes, by cProfile. The last line is one JSON object.
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
from reporting import describe_machine, finish
from torch import nn

from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.plan import Placement
from runtime.residency import Mode
from runtime.session import Session

BLOCKS, WIDTH, TOKENS = 40, 32, 4
ROUNDS, PASSES = 30, 4
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
    """One way to run the module, with its times in seconds."""

    name: str
    module: nn.Module
    session: Session | None = None
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    ending_s: list[float] = field(default_factory=list)

    def run_request(self, x: torch.Tensor, passes: int) -> torch.Tensor:
        """One request, timed pass by pass; returns the last output."""
        y = x
        for number in range(passes):
            begin_s, begin_cpu_s = time.perf_counter(), time.thread_time()
            y = self.module(x)
            if number and number + 1 < passes:  # the first pass begins the request, the last one ends and measures it
                self.cpu_s.append(time.thread_time() - begin_cpu_s)
                self.wall_s.append(time.perf_counter() - begin_s)
            elif number:
                self.ending_s.append(time.perf_counter() - begin_s)
        return y

    def summarise(self, plain_s: float, plain_cpu_s: float, blocks: int) -> dict[str, object]:
        """Medians, and what they are above the plain module's per block."""
        wall_s, cpu_s = statistics.median(self.wall_s), statistics.median(self.cpu_s)
        quarter_s, _, three_quarters_s = statistics.quantiles(self.wall_s, n=4)
        return {
            "variant": self.name,
            "pass_us": wall_s * 1e6,
            "pass_quartiles_us": [quarter_s * 1e6, three_quarters_s * 1e6],
            "pass_cpu_us": cpu_s * 1e6,
            "overhead_per_layer_us": (wall_s - plain_s) / blocks * 1e6,
            "cpu_overhead_per_layer_us": (cpu_s - plain_cpu_s) / blocks * 1e6,
            "end_of_request_per_layer_us": (statistics.median(self.ending_s) - wall_s) / blocks * 1e6,
        }


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
            session = scope.enter_context(Session({"transformer": module}, executable, device=device))
            return Variant(name, module, session)

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
            under_diffusers("diffusers block", offload_type="block_level", num_blocks_per_group=1),
            under_diffusers("diffusers leaf", offload_type="leaf_level"),
        ]


def measure(blocks: int, rounds: int, passes: int) -> list[dict[str, object]]:
    """All variants, round after round."""
    x = torch.randn(1, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    with open_variants(blocks, passes) as variants, torch.inference_mode():
        expected = variants[0].run_request(x, passes)
        for number in range(rounds):
            first = number % len(variants)
            for variant in (*variants[first:], *variants[:first]):
                if not torch.equal(variant.run_request(x, passes), expected):
                    raise SystemExit(f"{variant.name} computes something else than the plain module")
        plain_s, plain_cpu_s = (statistics.median(times) for times in (variants[0].wall_s, variants[0].cpu_s))
        return [variant.summarise(plain_s, plain_cpu_s, blocks) for variant in variants]


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
    parser.add_argument("--quick", action="store_true", help="few blocks, two rounds")
    settings = parser.parse_args(arguments)
    torch.set_num_threads(1)
    blocks, rounds = (4, 2) if settings.quick else (BLOCKS, settings.rounds)
    rows = measure(blocks, rounds, PASSES)
    print(f"{'variant':<18} {'pass':>9} {'CPU':>9} {'overhead a layer':>17} {'CPU':>8} {'end of request':>15}   (us)")
    for row in rows:
        print(
            f"{row['variant']:<18} {row['pass_us']:9.0f} {row['pass_cpu_us']:9.0f} "
            f"{row['overhead_per_layer_us']:17.1f} {row['cpu_overhead_per_layer_us']:8.1f} "
            f"{row['end_of_request_per_layer_us']:15.1f}"
        )
    if settings.profile:
        print(profile_session(blocks, PASSES, 45))
    result = {
        "benchmark": "overhead",
        **describe_machine(),
        "blocks": blocks,
        "parameters_per_block": sum(1 for _ in Block().parameters()),
        "rounds": rounds,
        "passes_counted": rounds * (PASSES - 2),
        "variants": rows,
    }
    finish(result, settings.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
