"""A stand-in for the module ``pynvml``: cards with faults, MIG instances and integrated parts.

Handles are the cards themselves. A figure may be a value or an error to raise; ``supports_v2`` and ``throttle_name``
play an older library. Nothing here takes a CUDA ordinal: cards are listed in the order they are given.
"""

# ruff: noqa: N802, N815 - the names are the library's

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

from runtime.units import GIB

RESERVED_BYTES = GIB // 2


class FakeNvmlError(Exception):
    """As ``pynvml.NVMLError``: a text, and the code in ``value``."""

    def __init__(self, text: str, value: int) -> None:
        super().__init__(text)
        self.value = value


NOT_SUPPORTED = FakeNvmlError("Not Supported", 3)
LOST = FakeNvmlError("GPU is lost", 15)
NOT_FOUND = FakeNvmlError("Not Found", 6)
MISMATCH = FakeNvmlError("RM has detected an NVML/RM version mismatch.", 18)


@dataclass(kw_only=True, eq=False)
class FakeCard:
    """One card, or one MIG instance; every figure may also be an exception."""

    title: object = "NVIDIA GeForce RTX 4090"
    uuid: object = "GPU-11111111-2222-3333-4444-555555555555"
    bus_id: object = "00000000:01:00.0"
    total_bytes: object = 24 * GIB
    used_bytes: int = 0
    capability: object = (8, 9)
    generation: object = 4
    lanes: object = 16
    max_generation: object = 4
    max_lanes: object = 16
    temperature: object = 41
    clocks_mhz: object = (2520, 10501)
    max_clock_mhz: object = 3105
    reasons: object = 0
    utilization: object = 0
    power_mw: object = 80_000
    compute: object = ()
    graphics: object = ()
    instances: tuple[FakeCard, ...] | None = None
    lost: bool = False


def process(pid, used_bytes=GIB):
    """A process as NVML lists it."""
    return SimpleNamespace(pid=pid, usedGpuMemory=used_bytes)


def _give(value):
    if isinstance(value, Exception):
        raise value
    return value


class FakeNvml:
    """The module. Only the functions that are asked for exist."""

    nvmlMemory_v2 = 0x02000028

    def __init__(self, *cards, driver="580.65.06", init_error=None, supports_v2=True, throttle_name="Event"):
        self.cards = cards
        self.driver = driver
        self.opened = 0
        self._init_error = init_error
        self._supports_v2 = supports_v2
        setattr(self, f"nvmlDeviceGetCurrentClocks{throttle_name}Reasons", lambda card: _give(card.reasons))

    def nvmlInit(self):
        if self._init_error is not None:
            raise self._init_error
        self.opened += 1

    def nvmlShutdown(self):
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self):
        return _give(self.driver)

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return _give(LOST if self.cards[index].lost else self.cards[index])

    def nvmlDeviceGetHandleByUUID(self, uuid):
        everything = [*self.cards, *(part for card in self.cards for part in card.instances or ())]
        for card in everything:
            if card.uuid == uuid and not card.lost:
                return card
        raise NOT_FOUND

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, instance):
        return next(card for card in self.cards if instance in (card.instances or ()))

    def nvmlDeviceGetName(self, card):
        return _give(card.title)

    def nvmlDeviceGetUUID(self, card):
        return _give(card.uuid)

    def nvmlDeviceGetPciInfo(self, card):
        return SimpleNamespace(busId=_give(card.bus_id).upper().encode())

    def nvmlDeviceGetMemoryInfo(self, card, version=None):
        if version is not None and not self._supports_v2:
            raise FakeNvmlError("Function Not Found", 13)
        total = _give(card.total_bytes)
        reserved = min(total, RESERVED_BYTES)
        if version is None:
            return SimpleNamespace(
                total=total, used=card.used_bytes + reserved, free=total - reserved - card.used_bytes
            )
        free = max(0, total - reserved - card.used_bytes)
        return SimpleNamespace(total=total, reserved=reserved, used=card.used_bytes, free=free)

    def nvmlDeviceGetCudaComputeCapability(self, card):
        return _give(card.capability)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, card):
        return _give(card.generation)

    def nvmlDeviceGetCurrPcieLinkWidth(self, card):
        return _give(card.lanes)

    def nvmlDeviceGetMaxPcieLinkGeneration(self, card):
        return _give(card.max_generation)

    def nvmlDeviceGetMaxPcieLinkWidth(self, card):
        return _give(card.max_lanes)

    def nvmlDeviceGetTemperature(self, card, sensor):
        return _give(card.temperature)

    def nvmlDeviceGetClockInfo(self, card, kind):
        return _give(card.clocks_mhz)[0 if kind == 1 else 1]

    def nvmlDeviceGetMaxClockInfo(self, card, kind):
        return _give(card.max_clock_mhz)

    def nvmlDeviceGetUtilizationRates(self, card):
        return SimpleNamespace(gpu=_give(card.utilization), memory=0)

    def nvmlDeviceGetPowerUsage(self, card):
        return _give(card.power_mw)

    def nvmlDeviceGetComputeRunningProcesses(self, card):
        return list(_give(card.compute))

    def nvmlDeviceGetGraphicsRunningProcesses(self, card):
        return list(_give(card.graphics))

    def nvmlDeviceGetMigMode(self, card):
        if card.instances is None:
            raise NOT_SUPPORTED
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, card):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card, index):
        if index >= len(card.instances):
            raise NOT_FOUND
        return card.instances[index]


class FakeTorch:
    """The module ``torch`` of a process that has opened ``cards``, in CUDA's order."""

    def __init__(self, *cards, integrated=0, reserved_bytes=0, opened=True, tells_uuid=True):
        self.cuda = self
        self._cards, self._integrated, self._reserved = cards, integrated, reserved_bytes
        self._opened, self._tells_uuid = opened, tells_uuid

    def is_initialized(self):
        return self._opened

    def current_device(self):
        return 0

    def memory_reserved(self, ordinal):
        return self._reserved

    def get_device_properties(self, ordinal):
        card = self._cards[ordinal]
        total = card.total_bytes if isinstance(card.total_bytes, int) else 0
        facts = SimpleNamespace(total_memory=max(0, total - RESERVED_BYTES), is_integrated=self._integrated)
        if self._tells_uuid:
            facts.uuid = card.uuid.removeprefix("GPU-").removeprefix("MIG-")
        else:
            domain, bus, rest = card.bus_id.split(":")
            facts.pci_domain_id, facts.pci_bus_id = int(domain, 16), int(bus, 16)
            facts.pci_device_id = int(rest.split(".")[0], 16)
        return facts


def uuid_of(number, prefix="GPU"):
    """A UUID that begins with ``number``."""
    return f"{prefix}-{number:08x}-2222-3333-4444-555555555555"


def small_card(**traits):
    """The first card of the bus and CUDA's second one: 4 GiB."""
    return FakeCard(
        **{
            "title": "NVIDIA T400 4GB",
            "uuid": uuid_of(0xA),
            "bus_id": "00000000:01:00.0",
            "total_bytes": 4 * GIB,
            **traits,
        }
    )


def big_card(**traits):
    """The second card of the bus and CUDA's first one: 24 GiB."""
    return FakeCard(**{"uuid": uuid_of(0xB), "bus_id": "00000000:41:00.0", **traits})


def mig_card(*gib_of_instances):
    """A card in MIG mode."""
    instances = tuple(
        FakeCard(
            title=f"NVIDIA A100 80GB PCIe MIG {at + 1}g.{size}gb",
            uuid=uuid_of(0xC0 + at, "MIG"),
            total_bytes=size * GIB,
            utilization=NOT_SUPPORTED,
            # These are the card's; the driver does not answer for a part of it.
            temperature=NOT_SUPPORTED,
            clocks_mhz=NOT_SUPPORTED,
            max_clock_mhz=NOT_SUPPORTED,
            power_mw=NOT_SUPPORTED,
            reasons=NOT_SUPPORTED,
            generation=NOT_SUPPORTED,
            max_generation=NOT_SUPPORTED,
            bus_id=NOT_SUPPORTED,
        )
        for at, size in enumerate(gib_of_instances)
    )
    return FakeCard(title="NVIDIA A100 80GB PCIe", uuid=uuid_of(0xC), total_bytes=80 * GIB, instances=instances)
