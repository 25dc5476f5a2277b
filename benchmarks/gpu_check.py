"""What can only be seen on a CUDA card, in one go of at most six minutes: do the executor and the profiler keep their
promises there?

Parts, each a function of a bench (a card and a stack of heavy layers) with a time budget of its own:

=============  ====================================================================================================
contract       the device contract of ``tests/contract``, as a subprocess
identity       reduced real models give the plain module's bits under plans that differ in what they do
overlap        copies run while layers compute: intersection of the events' intervals, per request
peaks          peak weight bytes in every phase, beside the prediction
residency      leading beside strided residents where the link binds
engines        topup beside the server's schedule, diffusers' group offloading with a stream, and plain residency
overhead       what streaming costs the host per layer, where computing costs next to nothing
profile        H3 is profiled twice, and its blocks run as long as the first profile predicts; see ``profile_check``
=============  ====================================================================================================

Without a card every part that can runs on an emulated one, marked so, and the rest is ``not run``. A part that raises
has failed; the others go on. What a part had no time for is listed in its ``left_out``. ``latency_ms`` is the median of
requests after the first one after load by the card's events, ``wall_ms`` the same by the host's clock, synchronised:
what can be compared with modules that no session runs. ``predicted_ms`` is the replay of the plan with the link rate
and the compute of a layer that were measured before. Times are judged on a card only. The last line is one JSON object;
exit status 1 if any part that ran has failed.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import overhead
import torch
from diffusers.hooks import apply_group_offloading
from heavy_stack import COMPONENT, STACKS, Bench, open_cuda_bench, open_emulated_bench
from one_module import AMPLE, plan_module
from profile_check import check_profile
from reporting import CheckError, describe_command, describe_machine, finish
from torch import nn
from toy_models import ROOT, builders

from runtime.hosting import HostMemory
from runtime.intervals import merge, overlap_s
from runtime.measurement import RequestMeasurement
from runtime.plan import Placement
from runtime.residency import Lifetime, Mode, Policy
from runtime.session import Session
from runtime.timeline import Lane

TOPUP = "topup"
NO_CARD = "not run: no CUDA device"
LONGEST_S = 357  # of all parts together; their budgets add up to less
RATIOS = (0.5, 1.0, 2.0)
STEPS = (0, 1)
_STRIDED, _LEADING = Policy.STRIDED, Policy.LEADING


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the check.

    Attributes:
        name: in the result.
        run: does it; raises when a promise is not kept.
        budget_s: after which it begins nothing more.
    """

    name: str
    run: Callable[[Bench], dict[str, object]]
    budget_s: float


# Contract.


def check_contract(bench: Bench) -> dict[str, object]:
    """The contract suite; of the emulated devices where the bench is emulated."""
    command = [sys.executable, "-m", "pytest", "tests/contract", "-m", "not gpu" if bench.is_emulated else "gpu"]
    if bench.is_quick:
        command += ["-k", "in_the_order"]
    left_s = max(5.0, bench.deadline_s - time.perf_counter())
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=left_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise CheckError(f"the contract suite took longer than {left_s:.0f} s") from error
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()]
    if done.returncode:
        raise CheckError("\n".join(lines[-15:]))
    return {"command": command[2:], "summary": lines[-1]}


# Identity.


class OnDevice:
    """Calls a module whose inputs come from the CPU: every tensor that goes into it is brought to the device."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        self._module, self._device = module, device

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the module itself."""
        return self._module(*self._bring(args), **self._bring(kwargs))

    def __getattr__(self, name: str) -> object:
        found = getattr(self._module, name)
        if isinstance(found, nn.Module):
            return OnDevice(found, self._device)
        if not callable(found):
            return found
        return lambda *args, **kwargs: found(*self._bring(args), **self._bring(kwargs))

    def _bring(self, value: object) -> object:
        if isinstance(value, torch.Tensor):
            return value.to(self._device)
        if isinstance(value, Mapping):
            return {key: self._bring(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._bring(item) for item in value)
        return value


def list_identity_plans(component: str) -> dict[str, tuple[str, Placement, HostMemory]]:
    """Plans that differ in what the executor does: engine, placement, host."""
    unpinned = HostMemory(available_bytes=2**50, pins=False)
    tiny = HostMemory(available_bytes=2**20, pins=False, page_cache_room_bytes=0)

    def streamed(**knobs: object) -> Placement:
        return Placement(component=component, mode=Mode.LAYERWISE_OFFLOAD, **knobs)

    return {
        "streamed": (builders.SGLANG, streamed(), AMPLE),
        "strided": (builders.SGLANG, streamed(prefetch=2, resident=1, policy=_STRIDED), AMPLE),
        "permanent": (builders.SGLANG, streamed(resident=2, lifetime=Lifetime.PERMANENT), AMPLE),
        "topup": (TOPUP, streamed(prefetch=2, resident=1, policy=_STRIDED), AMPLE),
        "pageable": (builders.SGLANG, streamed(prefetch=2), unpinned),
        "mapped": (builders.SGLANG, streamed(prefetch=2), tiny),
        "moved": (builders.SGLANG, Placement(component=component, mode=Mode.COMPONENT_OFFLOAD), AMPLE),
        "resident": (builders.SGLANG, Placement(component=component, mode=Mode.RESIDENT), AMPLE),
    }


def check_identity(bench: Bench) -> dict[str, object]:
    """Every reduced model under every plan, two requests of two calls each, beside the plain module on that card."""
    from reduced_models import REDUCED_MODELS  # noqa: PLC0415 - its classes take seconds to import

    target = bench.device.torch_device
    same: list[str] = []
    other: list[str] = []
    left_out: list[str] = []
    for build in REDUCED_MODELS:
        model = build()
        plain = copy.deepcopy(model.module).to(target)
        expected = [model.call(OnDevice(plain, target), step) for step in STEPS]
        for name, (engine, placement, host) in list_identity_plans(model.component).items():
            title = f"{model.name}: {name}"
            if not bench.has_time or (bench.is_quick and name != "strided"):
                left_out.append(title)
                continue
            executable = plan_module(
                model.module,
                placement,
                stacks=model.stacks,
                passes=model.passes * len(STEPS),
                run_order=model.run_order,
                engine=engine,
                host=host,
            )
            paths = {model.component: dict(model.stacks)}
            with Session({model.component: model.module}, executable, device=bench.device, stacks=paths) as session:
                for _ in range(2):
                    with session.request():
                        found = [model.call(OnDevice(model.module, target), step) for step in STEPS]
                    equal = all(torch.equal(one, wanted) for one, wanted in zip(found, expected, strict=True))
                    if not equal:
                        break
            (same if equal else other).append(title)
        bench.drop_caches()
    if other:
        raise CheckError(f"outputs differ from the plain module's: {', '.join(other)}")
    return {"identical": len(same), "left_out": left_out}


# Overlap, peaks, residency.


def measure_overlap(request: RequestMeasurement) -> dict[str, float]:
    """How much of the copies' time lies inside the layers' runs, as intervals of the card's events."""
    runs = merge((run.start_s, run.end_s) for run in request.runs)
    spans = [(span.start_s, span.end_s) for one in request.copies for span in one.spans if span.lane is Lane.H2D]
    copy_s = sum(end - start for start, end in spans)
    within_s = sum(overlap_s(span, runs) for span in spans)
    return {
        "copy_ms": copy_s * 1e3,
        "compute_ms": sum(end - start for start, end in runs) * 1e3,
        "both_ms": within_s * 1e3,
        "hidden_ratio": within_s / copy_s if copy_s else 0.0,
    }


def check_overlap(bench: Bench) -> dict[str, object]:
    """Where compute lasts twice as long as copies, nearly all of them are hidden; each engine streams everything."""
    found: dict[str, object] = {}
    for engine in (builders.SGLANG, TOPUP):
        run = bench.run_plan(builders.streamed(), 2.0, engine=engine)
        measured = measure_overlap(run.report.requests[-1])
        found[engine] = measured
        if measured["hidden_ratio"] < (0.1 if bench.is_emulated else 0.8):
            raise CheckError(f"{engine}: only {measured['hidden_ratio']:.0%} of the copies lie inside runs", found)
    return found


def check_peaks(bench: Bench) -> dict[str, object]:
    """Peak weight bytes of every phase are what was predicted, never more."""
    count, found, above = bench.layers, {}, []
    for engine, placement in (
        (builders.SGLANG, builders.streamed(prefetch=2)),
        (builders.SGLANG, builders.streamed(resident=count // 4, policy=_STRIDED)),
        (TOPUP, builders.streamed(prefetch=3, resident=count // 4)),
        (builders.SGLANG, builders.kept()),
    ):
        run = bench.run_plan(placement, 1.0, engine=engine, passes=2, requests=2)
        title = f"{engine} {placement.describe()}"
        predicted = {phase.phase: phase.streamed_bytes + phase.standing_bytes for phase in run.predicted.phases}
        measured = {phase.phase: phase.peak_weight_bytes for phase in run.report.phases}
        most = max(run.report.phases, key=lambda phase: phase.peak_weight_bytes)
        found[title] = {
            "predicted_bytes": max(predicted.values()),
            "measured_bytes": most.peak_weight_bytes,
            "reserved_bytes": most.reserved_bytes,
            "phases_equal": sum(size == predicted[phase] for phase, size in measured.items() if phase in predicted),
            "phases": len(measured),
        }
        above += [f"{title}, {phase}" for phase, size in measured.items() if size > predicted.get(phase, size)]
    if above:
        raise CheckError(f"more weight bytes than predicted: {'; '.join(above)}", found)
    return found


def check_residency(bench: Bench) -> dict[str, object]:
    """With half of the layers resident, and copies twice as long as compute, spreading them beats keeping the first."""
    found: dict[str, object] = {}
    pass_s = {}
    for policy in (_LEADING, _STRIDED):
        run = bench.run_plan(builders.streamed(resident=bench.layers // 2, policy=policy), 0.5)
        found[str(policy)] = run.summarise()
        pass_s[policy] = run.latency_s
    found["strided_speedup_ratio"] = pass_s[_LEADING] / pass_s[_STRIDED] - 1
    if pass_s[_STRIDED] > 1.02 * pass_s[_LEADING] and not bench.is_emulated:
        raise CheckError("strided is slower than leading", found)
    return found


# Engines.


@contextmanager
def group_offloaded(bench: Bench, **settings: object) -> Iterator[nn.Module]:
    """A copy of the stack under diffusers' group offloading, one layer per group."""
    module = copy.deepcopy(bench.module)
    apply_group_offloading(
        module,
        onload_device=bench.device.torch_device,
        offload_device=torch.device("cpu"),
        offload_type="block_level",
        num_blocks_per_group=1,
        **settings,
    )
    yield module
    del module
    bench.drop_caches()


def time_module(bench: Bench, module: nn.Module, ratio: float, passes: int = 4, requests: int = 3) -> float:
    """Wall-clock seconds of ``passes`` passes on a card, the median after one request that does not count."""
    x, _ = bench.make_input(ratio)
    times_s = []
    with torch.inference_mode(), bench.device.compute_scope():
        for _ in range(1 + requests):
            torch.cuda.synchronize()
            begin_s = time.perf_counter()
            for _ in range(passes):
                module(x)
            torch.cuda.synchronize()
            times_s.append(time.perf_counter() - begin_s)
    return statistics.median(times_s[1:])


def compare_engines(bench: Bench) -> dict[str, object]:
    """Wall-clock latency of a request under every engine, for each ratio of compute to copy."""
    plans = {
        "resident": (builders.SGLANG, builders.kept()),
        "sglang P=1": (builders.SGLANG, builders.streamed()),
        "topup P=1": (TOPUP, builders.streamed()),
        "sglang P=4": (builders.SGLANG, builders.streamed(prefetch=4)),
        "topup P=7": (TOPUP, builders.streamed(prefetch=7)),
    }
    rows: list[dict[str, object]] = []
    left_out: list[str] = []
    for ratio in RATIOS[-1:] if bench.is_quick else RATIOS:
        for name, (engine, placement) in plans.items():
            if not bench.has_time:
                left_out.append(f"{name} at {ratio}")
                continue
            run = bench.run_plan(placement, ratio, engine=engine)
            rows.append({"what": name, "compute_to_copy": ratio, **run.summarise()})
    if bench.is_emulated:
        left_out.append(f"plain, diffusers: {NO_CARD}")
        return {"rows": rows, "left_out": left_out}
    variants: dict[str, Callable[[], object]] = {
        "diffusers, stream": lambda: group_offloaded(bench, use_stream=True),
        "diffusers, stream, record_stream": lambda: group_offloaded(bench, use_stream=True, record_stream=True),
        "diffusers, no stream": lambda: group_offloaded(bench, non_blocking=True),
        "plain": lambda: plain_on(bench),
    }
    for name, open_variant in variants.items():
        if not bench.has_time:
            left_out.append(name)
            continue
        torch.cuda.reset_peak_memory_stats()
        before_bytes = torch.cuda.memory_allocated()
        with open_variant() as module:
            for ratio in RATIOS:
                wall_s = time_module(bench, module, ratio)
                peak_bytes = torch.cuda.max_memory_allocated() - before_bytes
                rows.append(
                    {
                        "what": name,
                        "compute_to_copy": ratio,
                        "wall_ms": wall_s * 1e3,
                        "peak_allocated_bytes": peak_bytes,
                    }
                )
    return {"rows": rows, "left_out": left_out}


@contextmanager
def plain_on(bench: Bench) -> Iterator[nn.Module]:
    """The stack as it is, on the card."""
    module = copy.deepcopy(bench.module).to(bench.device.torch_device)
    yield module
    del module
    bench.drop_caches()


def check_engines(bench: Bench) -> dict[str, object]:
    """As ``compare_engines``; the schedule of topup must not be slower than the server's at equal bytes."""
    found = compare_engines(bench)
    of = {(row["what"], row["compute_to_copy"]): row.get("latency_ms", row["wall_ms"]) for row in found["rows"]}
    slower = [
        f"{ours} at {ratio}: {of[ours, ratio]:.2f} ms against {of[theirs, ratio]:.2f} ms"
        for ratio in RATIOS
        for ours, theirs in (("topup P=1", "sglang P=1"), ("topup P=7", "sglang P=4"))
        if (ours, ratio) in of and (theirs, ratio) in of and of[ours, ratio] > 1.03 * of[theirs, ratio]
    ]
    if slower and not bench.is_emulated:
        raise CheckError(f"topup is slower than the server's schedule: {'; '.join(slower)}", found)
    return found


# Overhead.


def measure_overhead(bench: Bench) -> dict[str, object]:
    """Host-side cost per layer of tiny blocks: on a card by the wall clock, else as ``benchmarks/overhead.py``."""
    blocks = 4 if bench.is_quick else overhead.BLOCKS
    if bench.is_emulated:
        return {"blocks": blocks, "variants": overhead.measure(blocks, 3, overhead.PASSES)}
    module = overhead.Stack(blocks).eval().requires_grad_(False)
    target, found = bench.device.torch_device, {}
    x = torch.randn(1, overhead.TOKENS, overhead.WIDTH, device=target)
    placement = Placement(component=COMPONENT, mode=Mode.LAYERWISE_OFFLOAD)
    found["plain"] = _time_passes(copy.deepcopy(module).to(target), x, bench)
    for engine in (builders.SGLANG, TOPUP):
        executable = plan_module(module, placement, stacks=STACKS, passes=1_000, engine=engine)
        with Session({COMPONENT: module}, executable, device=bench.device):
            found[engine] = _time_passes(module, x, bench)
    grouped = copy.deepcopy(module)
    apply_group_offloading(
        grouped, onload_device=target, offload_type="block_level", num_blocks_per_group=1, use_stream=True
    )
    found["diffusers, stream"] = _time_passes(grouped, x, bench)
    plain_s = found["plain"]
    return {
        "blocks": blocks,
        "pass_us": {name: pass_s * 1e6 for name, pass_s in found.items()},
        "overhead_per_layer_us": {name: (pass_s - plain_s) / blocks * 1e6 for name, pass_s in found.items()},
    }


def _time_passes(module: nn.Module, x: torch.Tensor, bench: Bench, passes: int = 30) -> float:
    """Median wall-clock seconds of one pass, synchronised."""
    times_s = []
    with torch.inference_mode(), bench.device.compute_scope():
        for _ in range(passes):
            torch.cuda.synchronize()
            begin_s = time.perf_counter()
            module(x)
            torch.cuda.synchronize()
            times_s.append(time.perf_counter() - begin_s)
    return statistics.median(times_s[5:])


PARTS = (
    Part(name="contract", run=check_contract, budget_s=50),
    Part(name="identity", run=check_identity, budget_s=50),
    Part(name="overlap", run=check_overlap, budget_s=15),
    Part(name="peaks", run=check_peaks, budget_s=15),
    Part(name="residency", run=check_residency, budget_s=15),
    Part(name="engines", run=check_engines, budget_s=50),
    Part(name="overhead", run=measure_overhead, budget_s=15),
    Part(name="profile", run=check_profile, budget_s=145),
)


def run_part(part: Part, open_bench: Callable[[], Bench]) -> dict[str, object]:
    """One part within its budget, on a bench of its own; whatever it raises is part of the result."""
    begin_s = time.perf_counter()
    outcome: dict[str, object] = {"status": "passed"}
    bench = None
    try:
        bench = open_bench()
        outcome["device"] = bench.device.name
        if bench.is_emulated:
            outcome["on_cuda"] = NO_CARD
        bench.deadline_s = begin_s + part.budget_s
        outcome["result"] = part.run(bench)
    except Exception as error:  # the parts are independent of each other
        outcome |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
        if isinstance(error, CheckError):
            outcome["result"] = error.found
        else:
            outcome["traceback"] = traceback.format_exc(limit=-6)
    finally:
        if bench is not None:
            bench.device.close()
    outcome["took_s"] = time.perf_counter() - begin_s
    return outcome


def describe_card() -> dict[str, object]:
    """The card, if there is one."""
    if not torch.cuda.is_available():
        return {"card": None}
    card = torch.cuda.get_device_properties(0)
    return {"card": card.name, "card_bytes": card.total_memory, "cuda": torch.version.cuda}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every part, say it, and print one JSON object last."""
    parser = argparse.ArgumentParser(description="Check the executor and the profiler on a CUDA card.")
    parser.add_argument("--device", default="cuda:0", help="the card; an emulated one is used where torch finds none")
    parser.add_argument("--only", help="names of parts, separated by commas")
    parser.add_argument("--out", type=Path, help="where to save the result")
    parser.add_argument("--quick", action="store_true", help="few layers and plans")
    settings = parser.parse_args(arguments)
    wanted = set(settings.only.split(",")) if settings.only else {part.name for part in PARTS}
    if unknown := wanted - {part.name for part in PARTS}:
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    has_card = torch.cuda.is_available() and settings.device != "emulated"
    if not has_card:
        torch.set_num_threads(1)

    def open_bench() -> Bench:
        if has_card:
            return open_cuda_bench(settings.device, is_quick=settings.quick)
        return open_emulated_bench(is_quick=settings.quick)

    result: dict[str, object] = {
        "benchmark": "gpu_check",
        **describe_command(__file__, arguments),
        **describe_machine(),
        **describe_card(),
        "cuda_parts": "run" if has_card else NO_CARD,
    }
    watchdog = threading.Timer(LONGEST_S, give_up, (result, settings.out))
    watchdog.daemon = True
    watchdog.start()
    failed = run_parts([part for part in PARTS if part.name in wanted], open_bench, result)
    watchdog.cancel()
    finish(result, settings.out)
    return 1 if failed else 0


def run_parts(parts: Sequence[Part], open_bench: Callable[[], Bench], result: dict[str, object]) -> list[str]:
    """Run ``parts``, note them in ``result`` as they end, and return the names of those that failed."""
    begin_s = time.perf_counter()
    done: dict[str, dict[str, object]] = {}
    failed: list[str] = []
    result |= {"failed": failed, "parts": done}
    for part in parts:
        outcome = done[part.name] = run_part(part, open_bench)
        if outcome["status"] == "failed":
            failed.append(part.name)
        where = outcome.get("device", "no device")
        error = outcome.get("error", "")
        print(f"{part.name:<10} {outcome['status']:<7} on {where}, {outcome['took_s']:.1f} s  {error}", flush=True)
    result["took_s"] = time.perf_counter() - begin_s
    return failed


def give_up(result: Mapping[str, object], out: Path | None) -> None:
    """A part hangs: say what there is, and end the process."""
    finish({**result, "stopped": f"a part was still running after {LONGEST_S} s"}, out)
    sys.stdout.flush()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
