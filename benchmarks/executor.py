"""Whether the executor takes, in real time, what its plans were predicted to take, and names what bound them.

Measured: latency of later requests of toy models under plans that differ in what binds them, executed by ``Session`` on
an emulated device with the real clock: copies and reads on threads of their own, compute on the host's, each paced.
Predicted: the replay of the same plan with the same costs. Beside them the same session on the virtual clock, which
must agree with the replay exactly.

Protocol: per plan one session; the first request after load is not compared; then ``--requests`` later ones. Reported
are the median error and the least one: whatever disturbs the machine only adds time. Sleeps are timed before every plan
(``late_ms``: mean lateness of a sleep while another thread sleeps likewise), because nothing here can be more punctual
than the machine. ``--time-scale`` makes every layer, copy and read longer by the clock on the wall, and with it all
that the host does in between shorter by the card's. One torch thread. The last line is one JSON object; exit status 1
if a median is off by more than ``--tolerance`` or a use names another resource than the plan was made to be bound by.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from reporting import describe_command, describe_machine, finish
from toy_models import builders, open_paced, toy_modules

from autotune.evaluate import AMPLE_HOST, Evaluator
from runtime.devices.emulated import ClockKind
from runtime.devices.real_time import RealTime
from runtime.hosting import HostMemory
from runtime.measurement import RequestMeasurement
from runtime.plan import Plan
from runtime.residency import Policy

LAYERS = 12
PASSES = 6
TOLERANCE_RATIO = 0.03
TOPUP = "topup"
UNPINNED = HostMemory(available_bytes=2**50, pins=False)
TINY_HOST = HostMemory(available_bytes=2**20, pins=False, page_cache_room_bytes=0)
_LATENESS_SLEEPS = 25


@dataclass(frozen=True, kw_only=True)
class Case:
    """One plan of one toy model.

    Attributes:
        name: what it is about.
        binding: the resource that each use must be bound by, in order.
        components: of the toy model.
        plan: their placements.
        host: where copies wait.
    """

    name: str
    binding: tuple[str, ...]
    components: Mapping[str, object]
    plan: Plan
    host: HostMemory = field(default=AMPLE_HOST)

    def build_evaluator(self) -> Evaluator:
        """The predictions that the case is compared with."""
        evaluator: Evaluator = builders.build_evaluator(self.components, engine=self.plan.engine, host=self.host)
        return evaluator


def list_cases(layers: int = LAYERS, passes: int = PASSES) -> list[Case]:
    """Plans that differ in what binds them. Layers compute 4 to 12 ms, except where a whole component moves."""

    def dit(**stack: object) -> dict[str, object]:
        return {"transformer": builders.build_component(layers, is_dit=True, passes=passes, **stack)}

    def plan(*, engine: str = builders.SGLANG, **knobs: object) -> Plan:
        made: Plan = builders.build_plan(builders.streamed(**knobs), engine=engine)
        return made

    half = layers // 2
    uneven = dit(compute_ms=8, copy_ms=6, uneven={half: 24})
    sparse, dense = dit(compute_ms=8, copy_ms=12), dit(compute_ms=6, copy_ms=14)
    pipeline = {
        "text_encoder": builders.build_component(layers, compute_ms=4, copy_ms=10, rest_ms=1),
        "transformer": builders.build_component(layers, is_dit=True, compute_ms=8, copy_ms=6, passes=passes),
        "vae": builders.build_component(half, compute_ms=6, copy_ms=9, passes=2, outside_ms=6),
    }
    mixed = builders.build_plan(builders.streamed("text_encoder"), builders.streamed(resident=2), builders.moved("vae"))
    link, compute = ("link",), ("compute",)
    return [
        Case(name="compute binds, P=1", binding=compute, components=dit(compute_ms=10, copy_ms=5), plan=plan()),
        Case(name="link binds, P=1", binding=link, components=dit(compute_ms=5, copy_ms=10), plan=plan()),
        Case(
            name="link binds, strided residents",
            binding=link,
            components=dense,
            plan=plan(resident=layers // 3, policy=Policy.STRIDED),
        ),
        Case(name="half resident, leading", binding=compute, components=sparse, plan=plan(resident=half)),
        Case(
            name="half resident, strided",
            binding=compute,
            components=sparse,
            plan=plan(resident=half, policy=Policy.STRIDED),
        ),
        Case(name="uneven, P=1", binding=compute, components=uneven, plan=plan()),
        Case(name="uneven, P=3", binding=compute, components=uneven, plan=plan(prefetch=3)),
        Case(name="uneven, topup P=3", binding=compute, components=uneven, plan=plan(prefetch=3, engine=TOPUP)),
        Case(
            name="link binds, topup strided",
            binding=link,
            components=dense,
            plan=plan(resident=layers // 3, policy=Policy.STRIDED, engine=TOPUP),
        ),
        Case(
            name="pageable copies bind",
            binding=("host",),
            components=dit(compute_ms=6, copy_ms=4),
            plan=plan(),
            host=UNPINNED,
        ),
        Case(
            name="reads bind (mapped)",
            binding=("read",),
            components=dit(compute_ms=6, copy_ms=2.5),
            plan=plan(),
            host=TINY_HOST,
        ),
        Case(
            name="component moves bind",
            binding=("host",),
            components=dit(compute_ms=1, copy_ms=10),
            plan=builders.build_plan(builders.moved()),
        ),
        Case(
            name="everything resident",
            binding=("none",),
            components=dit(compute_ms=10, copy_ms=10),
            plan=builders.build_plan(builders.kept()),
        ),
        Case(name="pipeline, mixed modes", binding=("link", "compute", "host"), components=pipeline, plan=mixed),
    ]


def run_session(
    case: Case, evaluator: Evaluator, clock: ClockKind, later_requests: int, time_scale: float = 1.0
) -> Sequence[RequestMeasurement]:
    """Later requests of ``case`` on ``clock``."""
    device = open_paced(evaluator, case.plan, clock=clock, time_scale=time_scale)
    try:
        _, report, _ = toy_modules.run_on_device(evaluator, case.plan, device, requests=1 + later_requests)
    finally:
        device.close()
    measured: Sequence[RequestMeasurement] = report.requests[1:]
    return measured


def measure_lateness_s() -> float:
    """Mean lateness of paced sleeps of 4 ms on one of two threads that sleep so."""
    clock, late = RealTime(1.0), [[], []]  # type: tuple[RealTime, list[list[float]]]

    def sleep_often(found: list[float]) -> None:
        for _ in range(_LATENESS_SLEEPS):
            at_s = clock.now_s() + 0.004
            clock.sleep_until(at_s)
            found.append(clock.now_s() - at_s)

    other = threading.Thread(target=sleep_often, args=(late[1],))
    other.start()
    sleep_often(late[0])
    other.join()
    return statistics.mean(late[0])


def measure_case(case: Case, requests: int, time_scale: float) -> dict[str, object]:
    """Predicted and measured latency of ``case``, and what bound it."""
    evaluator = case.build_evaluator()
    predicted_s = evaluator.evaluate(case.plan).latency_s
    late_s = measure_lateness_s()
    (virtual,) = run_session(case, evaluator, ClockKind.VIRTUAL, 1)
    measured = run_session(case, evaluator, ClockKind.REAL, requests, time_scale)
    errors = sorted(request.latency_s / predicted_s - 1 for request in measured)
    named = [tuple(use.binding for use in request.uses) for request in measured]
    return {
        "case": case.name,
        "engine": case.plan.engine,
        "placements": [placement.describe() for placement in case.plan.placements],
        "predicted_s": predicted_s,
        "measured_s": statistics.median(request.latency_s for request in measured),
        "error_ratio": statistics.median(errors),
        "least_error_ratio": errors[0],
        "most_error_ratio": errors[-1],
        "virtual_error_s": virtual.latency_s - predicted_s,
        "late_ms": late_s * 1e3,
        "expected_binding": list(case.binding),
        "named_binding": list(statistics.mode(named)),
        "binding_named_ratio": sum(one == case.binding for one in named) / len(named),
    }


def print_row(row: Mapping[str, object]) -> None:
    """One line of the table."""
    named = "+".join(row["named_binding"])
    wrong = "" if row["named_binding"] == row["expected_binding"] else f", not {'+'.join(row['expected_binding'])}"
    print(
        f"{row['case']:<31} {row['predicted_s'] * 1e3:9.1f} {row['measured_s'] * 1e3:9.1f} "
        f"{row['error_ratio']:+8.2%} {row['least_error_ratio']:+8.2%} {row['most_error_ratio']:+8.2%} "
        f"{row['late_ms']:7.3f}  {named}{wrong}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every case, say it, and print one JSON object last."""
    parser = argparse.ArgumentParser(description="Executor on the real clock against the replay.")
    parser.add_argument("--requests", type=int, default=7, help="later requests per plan")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE_RATIO, help="share by which a median may be off")
    parser.add_argument("--time-scale", type=float, default=1.0, help="wall seconds per second of the emulated card")
    parser.add_argument("--out", type=Path, help="where to save the result")
    parser.add_argument("--quick", action="store_true", help="two short requests a plan; judges nothing")
    settings = parser.parse_args(arguments)
    torch.set_num_threads(1)
    begin_s = time.perf_counter()
    layers, passes = (4, 1) if settings.quick else (LAYERS, PASSES)
    cases = list_cases(layers, passes)
    requests = 1 if settings.quick else settings.requests
    print(f"{'plan':<31} {'predicted':>9} {'measured':>9} {'median':>8} {'least':>8} {'most':>8} {'late':>7}  bound by")
    rows = []
    for case in cases:
        rows.append(measure_case(case, requests, settings.time_scale))
        print_row(rows[-1])
    outside = [row["case"] for row in rows if abs(row["error_ratio"]) > settings.tolerance]
    misnamed = [row["case"] for row in rows if row["named_binding"] != row["expected_binding"]]
    print(
        f"outside {settings.tolerance:.0%}: {', '.join(outside) or 'none'}; misnamed: {', '.join(misnamed) or 'none'}"
    )
    result = {
        "benchmark": "executor",
        **describe_command(__file__, arguments),
        **describe_machine(),
        "layers": layers,
        "passes": passes,
        "requests": requests,
        "time_scale": settings.time_scale,
        "tolerance_ratio": settings.tolerance,
        "outside_tolerance": outside,
        "misnamed": misnamed,
        "took_s": time.perf_counter() - begin_s,
        "cases": rows,
    }
    finish(result, settings.out)
    return 1 if (outside or misnamed) and not settings.quick else 0


if __name__ == "__main__":
    sys.exit(main())
