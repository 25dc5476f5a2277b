"""What between two readings of a device's conditions makes times taken there worthless. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.telemetry.conditions import DeviceConditions
from autotune.telemetry.throttling import DISTURBING, GPU_IDLE
from runtime.errors import InputError
from runtime.units import format_percent

_MOST_CLOCK_DROP_RATIO = 0.1
"""A card whose clock falls further between the two readings was in no steady state; a judgement, not a measurement."""

_MOST_OTHER_LOAD_RATIO = 0.1
"""Share of all processors that others may keep busy during a run on the CPU; a judgement, not a measurement."""


def find_disturbances(before: DeviceConditions, after: DeviceConditions) -> tuple[str, ...]:
    """Why times taken between the two readings are dirty, in sentences; empty when nothing is known against them.

    Conditions of a card that could not be read at all are told, too: nobody knows what happened then.

    Raises:
        InputError: the readings are of two devices, or in the wrong order.
    """
    if before.uuid != after.uuid or before.at_s > after.at_s:
        raise InputError(
            f"readings of {before.uuid} at {before.at_s} s and of {after.uuid} at {after.at_s} s are no pair: read one "
            "device before and after the run"
        )
    return (
        *_find_blindness(before, after),
        *_find_throttling(before, after),
        *_find_others(before, after),
        *_find_clock_drop(before, after),
        *_find_load(before, after),
    )


def _find_blindness(before: DeviceConditions, after: DeviceConditions) -> Iterator[str]:
    reason = before.unknown.get("uuid") or after.unknown.get("uuid")
    if reason:
        yield f"the conditions of the card are unknown: {reason}"


def _find_throttling(before: DeviceConditions, after: DeviceConditions) -> Iterator[str]:
    seen = {*(before.throttle_reasons or ()), *(after.throttle_reasons or ())}
    found = sorted(seen & DISTURBING)
    if found:
        temperatures = [reading.temperature_c for reading in (before, after) if reading.temperature_c is not None]
        heat = f" at {max(temperatures)} °C" if temperatures else ""
        yield f"the card was throttled{heat}: {', '.join(found)}"


def _find_others(before: DeviceConditions, after: DeviceConditions) -> Iterator[str]:
    count = max(before.other_count or 0, after.other_count or 0)
    if count:
        pids = sorted({*before.other_pids, *after.other_pids})
        named = f" (process {', '.join(map(str, pids))})" if pids else ""
        yield f"{count} other {'process' if count == 1 else 'processes'} computed on the card{named}"


def _find_clock_drop(before: DeviceConditions, after: DeviceConditions) -> Iterator[str]:
    first, last = before.sm_clock_mhz, after.sm_clock_mhz
    # A card that has gone idle by the second reading has lowered its clock after the run, not during it.
    if first is None or last is None or GPU_IDLE in (after.throttle_reasons or ()):
        return
    if last < first * (1 - _MOST_CLOCK_DROP_RATIO):
        yield f"the clock fell by {format_percent(1 - last / first)} from {first} to {last} MHz"


def _find_load(before: DeviceConditions, after: DeviceConditions) -> Iterator[str]:
    if before.load is None or after.load is None:
        return
    ratio = before.load.other_ratio(after.load)
    if ratio is not None and ratio > _MOST_OTHER_LOAD_RATIO:
        yield f"other processes kept {format_percent(ratio)} of the {after.load.cpus} processors busy"
