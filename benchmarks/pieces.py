"""Do measured pieces add up? The sum over a component's pieces beside whole runs of it, on this machine's processor.

Released configurations with random weights, small requests, one thread. Whole runs are timed before and after the
pieces of each round, so that both see the same minutes of the machine: only the ratio says anything. Statistic: median
of whole runs in a round, median over rounds. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
from reporting import describe_command, describe_machine, finish

from autotune.catalog.built_component import BuiltComponent
from autotune.live_components import build_live_component, list_component_builders, synthetic_input
from autotune.measure.bench import Bench
from autotune.measure.cold_start import PROCESSOR_BYTES
from autotune.measure.model import measure_component
from autotune.measure.run_settings import RunSettings
from autotune.measure.timing import TimingProtocol
from autotune.measure.watch import Watch
from autotune.measurements.records import Held, Record
from autotune.telemetry.conditions import read_conditions
from autotune.work import UseWork
from autotune.workload import Workload
from runtime.devices.open_device import open_device

CASES = {
    "Wan2.1-T2V-1.3B": ("transformer", Workload(width=256, height=256, frames=5, steps=4, prompt_tokens=512)),
    "Z-Image-Turbo": ("vae", Workload(width=256, height=256, frames=1, steps=8, prompt_tokens=32)),
    "FLUX.1-dev": ("text_encoder", Workload(width=256, height=256, frames=1, steps=4, prompt_tokens=512)),
}
WHOLE_RUNS = 3
PROTOCOL = TimingProtocol(warmups=1, least_count=5, most_count=10, spread_ratio=0.05, limit_s=5.0)


class Forgetful:
    """Keeps nothing: every round measures anew."""

    def recall(self, holds: type[Held], key: str) -> Held | None:
        """Nothing."""

    def remember(self, key: str, record: Record) -> None:
        """Nothing."""


def sum_run_s(work: UseWork, passes: int) -> float:
    """Seconds of one run, which makes ``passes`` passes."""
    (group,) = work.groups
    layers_s = sum(piece.measured_s for layers in group.layers.values() for piece in layers)
    return work.outside.measured_s + passes * (layers_s + group.outside.measured_s)


def compare(model: str, component: str, workload: Workload, rounds: int) -> dict[str, object]:
    """Ratios of the sum of pieces to the whole, round by round."""
    build = list_component_builders(model, workload)[component]
    whole = build()
    build_live_component(whole, device="cpu", seed=0)
    device = open_device("cpu")
    watch = Watch(lambda: read_conditions(None))
    ratios = []
    for number in range(rounds):
        bench = Bench(
            device=device,
            protocol=PROTOCOL,
            watch=watch,
            keeper=Forgetful(),
            notify=lambda _: None,
            cold_bytes=PROCESSOR_BYTES,
        )
        times_s = [time_whole(whole) for _ in range(WHOLE_RUNS)]
        measured = measure_component(build, RunSettings(bench=bench))
        times_s += [time_whole(whole) for _ in range(WHOLE_RUNS)]
        passes = max(piece.passes for piece in measured.pieces)
        summed_s = sum_run_s(measured.captured.work, passes)
        ratios.append(summed_s / statistics.median(times_s))
        text = (
            f"{model} {component} round {number + 1}: pieces {summed_s:.3f} s, whole {statistics.median(times_s):.3f} s"
        )
        print(text, file=sys.stderr)
    device.close()
    return {
        "component": component,
        "request": workload.describe(),
        "ratios": [round(ratio, 4) for ratio in ratios],
        "median_ratio": round(statistics.median(ratios), 4),
    }


def time_whole(whole: BuiltComponent) -> float:
    """Seconds of one whole run."""
    make_input = synthetic_input("cpu", 0)
    with torch.no_grad():
        begun_s = time.perf_counter()
        whole.run(make_input, None)
        return time.perf_counter() - begun_s


def main(arguments: list[str] | None = None) -> None:
    """Compare all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(CASES), help="one model")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    wanted = [options.only] if options.only else list(CASES)
    result: dict[str, object] = {"benchmark": "pieces", **describe_command(__file__, arguments), **describe_machine()}
    result["models"] = {name: compare(name, *CASES[name], options.rounds) for name in wanted}
    finish(result, options.out)


if __name__ == "__main__":
    main()
