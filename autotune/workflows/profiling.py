"""Profiles one model on one device of this machine, and keeps every record as soon as it is made. Imports torch.

::

    device opened -> machine and card read -> links, interference, budgets -> every distinct piece, one at a time
                                              (nothing may compute before)    (nothing else is on the device)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autotune.hardware import DevicePreset
from autotune.measure.node_readings import NodeReadings, find_backend, read_node
from autotune.measure.watch import Watch
from autotune.measurements.model_profile import ModelProfile
from autotune.measurements.node_profile import NodeProfile
from autotune.telemetry.answers import Unknown
from autotune.telemetry.conditions import DeviceConditions
from autotune.telemetry.nvml import open_nvml
from autotune.telemetry.survey import survey_gpus
from autotune.workflows.profiled_device import ProfiledDevice, open_profiled_device
from autotune.workflows.profiling_halves import Kept, Surroundings, profile_model, profile_node
from autotune.workflows.profiling_wish import ProfilingWish, settle_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """Both halves."""

    model: ModelProfile
    node: NodeProfile
    model_kept: Kept
    node_kept: Kept


def run_profiling(wish: ProfilingWish, device: str, like: DevicePreset, around: Surroundings) -> Profiled:
    """Open the device, measure the node, then the model.

    Args:
        wish: what to profile.
        device: ``cuda:N``, ``cpu`` or ``emulated``.
        like: the card whose speed an emulated one has.
        around: where profiles are kept, and what runs there.

    Raises:
        InputError: the server cannot run the request, or no device has that name.
        UnsupportedError: there is no such card here.
        ProfileError: a record or a profile cannot be kept. What was kept before stays.
        DeviceError: the device failed.
    """
    request = settle_request(wish, lambda text: around.notify(text, 0.0))
    free_before = {card.uuid: card.free_bytes for card in survey_gpus().readings if card.uuid is not None}
    target = open_profiled_device(device, like, request.builders)
    try:
        with open_nvml():  # kept open, so that every look at the card is quick
            readings = read_node(target.device)
            if not isinstance(readings.gpu, Unknown) and readings.gpu.uuid is not None:
                readings = replace(readings, free_before_bytes=free_before.get(readings.gpu.uuid))
            watch = Watch(_choose_reader(target, readings, around), around.now)
            node, node_kept = profile_node(wish, request, target, readings, watch, around)
            model, model_kept = profile_model(wish, request, target, watch, around)
    finally:
        target.device.close()
    return Profiled(model=model, node=node, model_kept=model_kept, node_kept=node_kept)


def _choose_reader(
    target: ProfiledDevice, readings: NodeReadings, around: Surroundings
) -> Callable[[], DeviceConditions]:
    """Reads the conditions of the device; computed times depend on none.

    The load of the processor is no condition of a card: of one that cannot be told, nothing is read, and the reason is.
    """
    if target.is_exact:
        return lambda: DeviceConditions(at_s=0.0)
    if find_backend(target.device) != "cuda":
        return lambda: around.read_conditions(None)
    gpu = readings.gpu
    if isinstance(gpu, Unknown):
        return lambda: DeviceConditions(at_s=0.0, unknown={"uuid": gpu.reason})
    if gpu.uuid is None:
        return lambda: DeviceConditions(at_s=0.0, unknown={"uuid": gpu.unknown["uuid"]})
    return lambda: around.read_conditions(gpu.uuid)
