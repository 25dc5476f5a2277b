"""What the CUDA runtime of this process says about its device, where torch has opened it. Opens nothing itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from autotune.telemetry.answers import Answer, Unknown, describe_error
from autotune.telemetry.cards import Inventory
from autotune.telemetry.nvml_device import normalise_bus_id
from autotune.telemetry.visible import Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaIdentity:
    """One device of the CUDA runtime.

    Attributes:
        ordinal: CUDA's number of it in this process.
        uuid: sixteen bytes in hexadecimal with dashes, without a prefix; None where this torch does not tell it.
        bus_id: PCI address; None as above.
        is_integrated: whether it shares the host's memory; None as above.
        total_bytes: what one process sees as the device's memory.
        reserved_bytes: device memory that torch's allocator holds.
    """

    ordinal: int
    uuid: str | None
    bus_id: str | None
    is_integrated: bool | None
    total_bytes: int
    reserved_bytes: int


def identify_cuda_device(ordinal: int | None = None, torch: Any = None) -> Answer[CudaIdentity]:  # noqa: ANN401
    """The device ``ordinal`` of this process, or the current one.

    Args:
        ordinal: CUDA's number; None for the current device.
        torch: the module, or something that behaves like it; by default the one that this process has imported.
    """
    module = sys.modules.get("torch") if torch is None else torch
    if module is None:
        return Unknown(reason="torch is not loaded in this process")
    cuda = module.cuda
    if not cuda.is_initialized():
        return Unknown(reason="this process has opened no CUDA device")
    try:
        number = cuda.current_device() if ordinal is None else ordinal
        facts = cuda.get_device_properties(number)
        total_bytes, reserved_bytes = int(facts.total_memory), int(cuda.memory_reserved(number))
    except Exception as error:  # a broken driver raises anything
        return Unknown(reason=f"the CUDA runtime does not describe its device: {describe_error(error)}")
    uuid, integrated = getattr(facts, "uuid", None), getattr(facts, "is_integrated", None)
    return CudaIdentity(
        ordinal=number,
        uuid=None if uuid is None else _bare_uuid(str(uuid)),
        bus_id=_bus_id_of(facts),
        is_integrated=None if integrated is None else bool(integrated),
        total_bytes=total_bytes,
        reserved_bytes=reserved_bytes,
    )


def match_card(inventory: Inventory, identity: CudaIdentity, chosen: Choice | None) -> Answer[Choice]:
    """The card that ``identity`` is, by UUID or else by PCI address, never by its number.

    Args:
        inventory: the cards of the machine.
        identity: the device of the CUDA runtime.
        chosen: what the environment alone says; it tells MIG instances of one card from each other.
    """
    everything = [*inventory.cards, *(part for card in inventory.cards for part in card.instances or ())]
    by_uuid = [card for card in everything if card.uuid and identity.uuid and _bare_uuid(card.uuid) == identity.uuid]
    by_bus = [card for card in inventory.cards if card.bus_id and card.bus_id == identity.bus_id]
    how = "UUID" if by_uuid else "PCI address"
    found = by_uuid or by_bus
    if len(found) != 1:
        return Unknown(
            reason=f"NVML lists no card with the UUID {identity.uuid} or the PCI address {identity.bus_id} of cuda:"
            f"{identity.ordinal}"
        )
    card, how = found[0], f"cuda:{identity.ordinal} by the {how} that the CUDA runtime reports"
    if card.instances is None:
        return Choice(candidates=(card,), how=how)
    # CUDA reports the card's own UUID for an instance unless it is asked in a newer way.
    named = chosen.card if chosen is not None else None
    if named is not None and named in card.instances:
        return Choice(candidates=(named,), how=f"{how}, and the MIG instance that CUDA_VISIBLE_DEVICES names")
    if len(card.instances) == 1:
        return Choice(candidates=card.instances, how=f"{how}; of its MIG instances there is one")
    return Unknown(
        reason=f"{how} is {card.describe()} in MIG mode with {len(card.instances)} instances: set CUDA_VISIBLE_DEVICES "
        "to the UUID of the instance"
    )


def _bare_uuid(text: str) -> str:
    return text.lower().removeprefix("gpu-").removeprefix("mig-")


def _bus_id_of(facts: Any) -> str | None:  # noqa: ANN401 - device properties of torch
    parts = [getattr(facts, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    if not all(isinstance(part, int) for part in parts):
        return None
    domain, bus, device = parts
    address = normalise_bus_id(f"{domain:08x}:{bus:02x}:{device:02x}.0")
    return None if isinstance(address, Unknown) else address
