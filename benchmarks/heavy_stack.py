"""A stack of equal layers on a real or an emulated card, whose compute is made to last a given share of its copies."""

from __future__ import annotations

import gc
import math
import statistics
import time
from dataclasses import dataclass
from functools import cached_property

import torch
from one_module import plan_module, predict
from torch import nn
from toy_models import builders

from autotune.evaluate import Evaluation
from runtime.devices.emulated import EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.devices.open_device import open_device
from runtime.devices.protocol import Device, Label
from runtime.plan import Placement
from runtime.session import Session
from runtime.session_report import SessionReport

STACKS = {"blocks": "blocks"}
COMPONENT = "transformer"
_CALIBRATION_RUNS = 10
_TOKEN_STEP = 128
_MOST_TOKENS = 32_768


class HeavyLayer(nn.Module):
    """Two square matrices with a nonlinearity between them."""

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        super().__init__()
        self.first, self.second = (nn.Parameter(part, requires_grad=False) for part in (first, second))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer; values stay below one."""
        return torch.tanh(torch.tanh(x @ self.first) @ self.second)


class HeavyStack(nn.Module):
    """Layers in a row; each has weights of its own."""

    def __init__(self, count: int, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        # Drawing every weight would take a minute; layers share random values in another order.
        drawn = torch.randn(width, width, generator=torch.Generator().manual_seed(3)) / math.sqrt(width)
        base = drawn.to(dtype)
        self.blocks = nn.ModuleList(
            HeavyLayer(base.roll(2 * layer + 1, 0), base.roll(2 * layer + 2, 1)) for layer in range(count)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One pass."""
        for block in self.blocks:
            x = block(x)
        return x


@dataclass(frozen=True, kw_only=True)
class PlanRun:
    """Requests of one plan.

    Attributes:
        report: of the session.
        predicted: by the replay, from the measured link rate and compute of a layer.
        wall_s: median of requests after the first one by the host's clock, without the measurement at their end.
    """

    report: SessionReport
    predicted: Evaluation
    wall_s: float

    @property
    def latency_s(self) -> float:
        """Median of requests after the first one after load, by the device's clock."""
        return statistics.median(request.latency_s for request in self.report.requests[1:])

    def summarise(self) -> dict[str, object]:
        """Measured beside predicted."""
        return {
            "latency_ms": self.latency_s * 1e3,
            "predicted_ms": self.predicted.latency_s * 1e3,
            "error_ratio": self.latency_s / self.predicted.latency_s - 1,
            "wall_ms": self.wall_s * 1e3,
            "binding": str(self.report.requests[-1].uses[0].binding),
            "peak_weight_bytes": max(phase.peak_weight_bytes for phase in self.report.phases),
        }


@dataclass
class Pace:
    """How long an emulated card computes; a real one takes what it takes."""

    layer_s: float = 0.0
    outside_s: float = 0.0


class Bench:
    """A card with a heavy stack in host memory.

    Attributes:
        device: the card; every session uses it in turn.
        is_emulated: whether it is no real one.
        is_quick: whether parts should do as little as they can.
        layers, layer_bytes: of the stack.
        deadline_s: of the part that runs, on the clock of ``time.perf_counter``.
    """

    def __init__(
        self, device: Device, pace: Pace, *, layers: int, width: int, dtype: torch.dtype, is_quick: bool
    ) -> None:
        self.device, self._pace = device, pace
        self.is_emulated = device.torch_device.type == "cpu"
        self.is_quick = is_quick
        self.layers, self.layer_bytes = layers, 2 * width * width * dtype.itemsize
        self.deadline_s = math.inf
        self._width, self._dtype = width, dtype
        self._tokens: dict[float, tuple[int, float]] = {}

    @cached_property
    def module(self) -> HeavyStack:
        """The stack, on the CPU whenever no session holds it."""
        return HeavyStack(self.layers, self._width, self._dtype)

    @cached_property
    def copy_s(self) -> float:
        """What a copy of one layer from pinned memory takes: the quickest of five, by the device's own clock."""
        device = self.device
        host = torch.zeros(self.layer_bytes, dtype=torch.uint8)
        buffer = device.allocate(self.layer_bytes, torch.uint8)
        device.pin(host)
        device.start_clock()
        copies = [device.copy_pinned([(buffer, host)], Label(COMPONENT)) for _ in range(5)]
        device.wait(copies[-1])
        device.synchronize()
        spans = [span for copy in copies for span in copy.spans()]
        device.unpin(host)
        device.free(buffer)
        return min(span.end_s - span.start_s for span in spans)

    @property
    def has_time(self) -> bool:
        """Whether the part that runs may begin something more."""
        return time.perf_counter() < self.deadline_s

    def make_input(self, ratio: float) -> tuple[torch.Tensor, float]:
        """An input with which a layer computes ``ratio`` times as long as its copy takes, and how long that is."""
        if ratio not in self._tokens:
            self._tokens[ratio] = self._find_tokens(ratio)
        tokens, layer_s = self._tokens[ratio]
        self._pace.layer_s = layer_s if self.is_emulated else 0.0
        return self._input(tokens), layer_s

    def run_plan(
        self,
        placement: Placement,
        ratio: float,
        *,
        engine: str = builders.SGLANG,
        passes: int = 4,
        requests: int = 4,
    ) -> PlanRun:
        """Execute requests of one plan whose layers compute ``ratio`` times as long as their copies take."""
        executable = plan_module(self.module, placement, stacks=STACKS, passes=passes, engine=engine)
        x, layer_s = self.make_input(ratio)
        predicted = predict(executable, layer_s=layer_s, copy_bytes_per_s=self.layer_bytes / self.copy_s)
        streams = executable.plan.streams(COMPONENT)
        self._pace.outside_s = 0.0 if streams or not self.is_emulated else self.layers * layer_s
        walls_s: list[float] = []
        with Session({COMPONENT: self.module}, executable, device=self.device) as session, torch.inference_mode():
            for _ in range(2 if self.is_quick else requests):
                self.device.synchronize()
                begin_s = time.perf_counter()
                with session.request():  # ends, and is measured, after the clock has been read
                    for _ in range(passes):
                        self.module(x)
                    self.device.synchronize()
                    walls_s.append(time.perf_counter() - begin_s)
            report = session.report()
        self.drop_caches()
        return PlanRun(report=report, predicted=predicted, wall_s=statistics.median(walls_s[1:]))

    def drop_caches(self) -> None:
        """Give memory back between sessions."""
        gc.collect()
        if not self.is_emulated:
            torch.cuda.empty_cache()

    def _input(self, tokens: int) -> torch.Tensor:
        drawn = torch.randn(min(tokens, _TOKEN_STEP), self._width, generator=torch.Generator().manual_seed(4))
        rows = drawn.to(self.device.torch_device, self._dtype)
        return rows.repeat(-(-tokens // len(rows)), 1)

    def _find_tokens(self, ratio: float) -> tuple[int, float]:
        """Rows of the input, and the seconds that a layer then takes."""
        wanted_s = ratio * self.copy_s
        if self.is_emulated:
            return 4, wanted_s
        layer = HeavyLayer(*(part.to(self.device.torch_device) for part in self.module.blocks[0].parameters()))
        tokens = 8 * _TOKEN_STEP
        for _ in range(3):  # time is not quite proportional to rows
            layer_s = self._measure_layer_s(layer, tokens)
            tokens = round(tokens * wanted_s / layer_s / _TOKEN_STEP) * _TOKEN_STEP
            tokens = min(max(tokens, _TOKEN_STEP), _MOST_TOKENS)
        return tokens, self._measure_layer_s(layer, tokens)

    def _measure_layer_s(self, layer: HeavyLayer, tokens: int) -> float:
        """Mean of some runs in a row, after as many that do not count."""
        device, x = self.device, self._input(tokens)
        with torch.inference_mode(), device.compute_scope():
            for _ in range(_CALIBRATION_RUNS):
                layer(x)
            device.synchronize()
            device.start_clock()
            begin = device.mark()
            for _ in range(_CALIBRATION_RUNS):
                layer(x)
            end = device.mark()
            device.synchronize()
        return (device.time_of(end) - device.time_of(begin)) / _CALIBRATION_RUNS


def open_cuda_bench(name: str, *, is_quick: bool) -> Bench:
    """Sixteen layers of 64 MiB on a CUDA card."""
    layers = 6 if is_quick else 16
    return Bench(open_device(name), Pace(), layers=layers, width=4096, dtype=torch.bfloat16, is_quick=is_quick)


def open_emulated_bench(*, is_quick: bool) -> Bench:
    """Layers of 32 KiB whose copies take some milliseconds, on the real clock."""
    width, pace = 64, Pace()
    rate = 2 * width * width * 4 / (0.002 if is_quick else 0.006)
    rates = LinkRates(
        pinned_bytes_per_s=rate,
        pageable_bytes_per_s=rate,
        d2h_bytes_per_s=rate,
        disk_bytes_per_s=rate,
        page_cache=PageCache.ALL,
    )
    device = EmulatedDevice(
        rates=rates,
        compute_s=lambda _: pace.layer_s,
        work_s=lambda index: pace.outside_s if index else 0.0,
    )
    layers = 6 if is_quick else 16
    return Bench(device, pace, layers=layers, width=width, dtype=torch.float32, is_quick=is_quick)
