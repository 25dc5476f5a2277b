"""Catalog entries cut down to a few narrow layers, and emulated devices of known speed to profile them on."""

from dataclasses import replace
from datetime import UTC, datetime

import shrunken_models

from autotune.catalog.entry import SettledWorkload
from autotune.catalog.minimax_h3_capture import capture_h3
from autotune.catalog.qwen_image_capture import capture_qwen_image
from autotune.catalog.registry import find_model
from autotune.measurements.model_profile import DeviceKind
from autotune.measurements.store import ProfileStore
from autotune.measurements.timing import Effort
from autotune.telemetry.conditions import DeviceConditions
from autotune.workflows.profiled_device import ProfiledDevice
from autotune.workflows.profiling_halves import Surroundings
from autotune.workflows.profiling_wish import ProfilingWish
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.units import GIB

CAPTURES = {"H3": capture_h3, "Qwen-Image": capture_qwen_image}
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
RATES = LinkRates(
    pinned_bytes_per_s=24e9,
    pageable_bytes_per_s=9e9,
    d2h_bytes_per_s=22e9,
    disk_bytes_per_s=2e9,
    page_cache=PageCache.STREAM,
)
EMULATED_KIND = DeviceKind(backend="emulated", title="emulated card of a test", memory_bytes=24 * GIB)


def shrunken_entry(model):
    """The catalog's entry of a shrunken model, with its configurations and its request, which nobody settles."""
    entry, capture = find_model(model.name), CAPTURES[model.name]
    return replace(
        entry,
        configs=model.configs,
        default_workload=model.workload,
        settle=lambda workload: SettledWorkload(workload=workload),
        capture=lambda settled, progress: capture(settled, model.configs, entry.sources, progress),
    )


H3 = shrunken_entry(shrunken_models.H3)
QWEN_IMAGE = shrunken_entry(shrunken_models.QWEN_IMAGE)


def emulated_target(pace, *, is_exact=True, **traits):
    """A profiled device on the virtual clock, on which every label takes the seconds that ``pace`` says."""
    settings = {"rates": RATES, "clock": ClockKind.VIRTUAL, "compute_s": pace, "tracks_activations": True, **traits}
    device = EmulatedDevice(**settings)
    return ProfiledDevice(device=device, name="emulated", kind=EMULATED_KIND, is_exact=is_exact)


def wish(entry, **changes):
    return ProfilingWish(**{"entry": entry, "effort": Effort.QUICK, **changes})


def surroundings(folder, **changes):
    """Where nothing disturbs, and the clock stands still."""
    settings = {
        "store": ProfileStore(folder),
        "versions": {"torch": "2.13.0"},
        "read_conditions": lambda _: DeviceConditions(at_s=0.0),
        "now": lambda: NOW,
    }
    return Surroundings(**{**settings, **changes})
