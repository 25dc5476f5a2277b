"""The cards of this machine, each with what tells it from the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.telemetry.answers import Answer, Unknown, or_none
from autotune.telemetry.nvml import Nvml
from autotune.telemetry.nvml_device import NvmlDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card, or one MIG instance of a card.

    Attributes:
        title: the driver's name; None where it has none.
        uuid: ``GPU-...`` or ``MIG-...``; None where unknown.
        bus_id: PCI address; an instance has its card's.
        total_bytes: memory; None where unknown.
        instances: MIG instances of a card in MIG mode, else None. No program computes on such a card itself.
        device: asks NVML about it.
    """

    title: str | None
    uuid: str | None
    bus_id: str | None
    total_bytes: int | None
    instances: tuple[Card, ...] | None = None
    device: NvmlDevice = field(compare=False, repr=False)

    @property
    def kind(self) -> tuple[str, int] | None:
        """What makes two cards alike; None where it is not known."""
        return None if self.title is None or self.total_bytes is None else (self.title, self.total_bytes)

    @property
    def parts(self) -> tuple[Card, ...]:
        """What programs compute on: the card itself, or its MIG instances."""
        return (self,) if self.instances is None else self.instances

    def describe(self) -> str:
        """Title and UUID, for people."""
        return f"{self.title or 'a card without a name'} ({self.uuid or 'UUID unknown'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All cards that NVML lists.

    Attributes:
        cards: those that answer, in NVML's order, which is not CUDA's.
        lost: why each of the others does not answer.
        driver: version of the driver.
    """

    cards: tuple[Card, ...]
    lost: tuple[str, ...] = ()
    driver: Answer[str]


def list_cards(nvml: Answer[Nvml]) -> Answer[Inventory]:
    """Ask for every card what it is."""
    if isinstance(nvml, Unknown):
        return nvml
    devices = nvml.devices()
    if isinstance(devices, Unknown):
        return devices
    cards, lost = [], []
    for device in devices:
        if isinstance(device, Unknown):
            lost.append(device.reason)
        else:
            cards.append(_describe_card(device))
    return Inventory(cards=tuple(cards), lost=tuple(lost), driver=nvml.driver_version())


def _describe_card(device: NvmlDevice) -> Card:
    instances = or_none(device.instances())
    memory = or_none(device.memory())
    return Card(
        title=or_none(device.title()),
        uuid=or_none(device.uuid()),
        bus_id=or_none(device.bus_id()),
        total_bytes=None if memory is None else memory.total_bytes,
        instances=None if instances is None else tuple(_describe_card(instance) for instance in instances),
        device=device,
    )
