"""Benches on emulated devices, and keepers of records, for tests of node measurements."""

from collections.abc import Callable
from datetime import UTC, datetime

from autotune.measure.bench import Bench
from autotune.measure.timing import PROTOCOLS, TimingProtocol
from autotune.measure.watch import Watch
from autotune.measurements.timing import Effort
from autotune.telemetry.conditions import DeviceConditions
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.devices.protocol import Device

RATES = LinkRates(
    pinned_bytes_per_s=24e9,
    pageable_bytes_per_s=9e9,
    d2h_bytes_per_s=22e9,
    disk_bytes_per_s=2e9,
    page_cache=PageCache.STREAM,
)
KIB, MIB = 2**10, 2**20


class MemoryKeeper:
    """Keeps records in a dictionary, and counts how often one was there."""

    def __init__(self) -> None:
        self.records: dict[tuple[type, str], object] = {}
        self.recalled = 0

    def recall(self, holds: type, key: str) -> object:
        self.recalled += (holds, key) in self.records
        return self.records.get((holds, key))

    def remember(self, key: str, record: object) -> None:
        self.records[type(record), key] = record


def virtual_device(**traits: object) -> EmulatedDevice:
    return EmulatedDevice(**{"rates": RATES, "clock": ClockKind.VIRTUAL, **traits})


def quiet_watch() -> Watch:
    return Watch(lambda: DeviceConditions(at_s=0.0), lambda: datetime(2026, 5, 1, tzinfo=UTC))


def bench_on(
    device: Device,
    keeper: MemoryKeeper | None = None,
    protocol: TimingProtocol = PROTOCOLS[Effort.QUICK],
    notify: Callable[[str], None] = lambda _: None,
) -> Bench:
    return Bench(device=device, protocol=protocol, watch=quiet_watch(), keeper=keeper or MemoryKeeper(), notify=notify)


def is_empty(device: EmulatedDevice) -> bool:
    """Whether nothing is allocated or pinned."""
    return not sum(device.memory().live_bytes.values()) and not device._pins.pinned_bytes
