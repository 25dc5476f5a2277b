"""Keeps the host copies of layers: pinned within a budget that is booked first, pageable, or mapped where they lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from runtime.devices.protocol import Device, Label
from runtime.errors import PinError
from runtime.hosting import HostTier
from runtime.layer_image import LayerImage
from runtime.units import GIB

# A single registration of 12 GiB fails on some systems with 48 GiB free (vllm-omni #2748); parts stay far below that.
PIN_PART_BYTES = 4 * GIB


class PinLedger:
    """Pinned bytes: each is booked before it is taken, so that nothing is locked beyond the budget.

    Attributes:
        budget_bytes: what may be pinned.
        booked_bytes: what is.
        refused: label and reason of each pin that the system refused.
        requested_bytes: what was asked for in all.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.booked_bytes = 0
        self.requested_bytes = 0
        self.refused: list[tuple[str, str]] = []

    def book(self, size_bytes: int) -> bool:
        """Take ``size_bytes`` of the budget; False when they are not left."""
        self.requested_bytes += size_bytes
        if self.booked_bytes + size_bytes > self.budget_bytes:
            return False
        self.booked_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Undo ``book``."""
        self.booked_bytes -= size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """Host memory of everything that is attached.

    Attributes:
        pinned_bytes, pageable_bytes, mapped_bytes: host copies, by where they wait.
        courier_bytes: pinned slots of couriers.
        requested_pin_bytes: pins that the plan asks for; what was refused waits in pageable memory.
        refused_pins: the layers that could not be pinned, with the reason.
        peak_attach_bytes: most bytes of host copies while attaching, the layer being copied included.
        pinning: how memory is pinned.
    """

    pinned_bytes: int
    pageable_bytes: int
    mapped_bytes: int
    courier_bytes: int
    requested_pin_bytes: int
    refused_pins: tuple[str, ...]
    peak_attach_bytes: int
    pinning: str


class HostStore:
    """Host copies of all layers that wait on the host."""

    def __init__(self, device: Device, ledger: PinLedger) -> None:
        self._device = device
        self.ledger = ledger
        self.courier_bytes = 0
        self._pins: dict[int, list[torch.Tensor]] = {}
        self._images: dict[int, LayerImage] = {}
        self._copied_bytes = 0
        self._peak_bytes = 0

    def host(self, image: LayerImage, tier: HostTier, label: Label) -> None:
        """Let ``image`` wait in ``tier``; a pin that is refused becomes a pageable copy.

        Weights that lie on the device are in no file any more: of these a copy is made in any case.
        """
        self._images[id(image)] = image
        if not image.size_bytes or (tier is HostTier.MAPPED and image.is_on_host):
            return
        image.gather()
        self._copied_bytes += image.size_bytes
        # The weights as they were found are given up once their copy is made: for a moment there are two of one layer.
        self._peak_bytes = max(self._peak_bytes, self._copied_bytes + image.size_bytes)
        if tier is HostTier.PINNED:
            self.pin(image, label)

    def pin(self, image: LayerImage, label: Label) -> bool:
        """Pin the host copy of ``image`` if the budget and the system allow it."""
        if image.tier is HostTier.PINNED or not image.host_buffers:
            return image.tier is HostTier.PINNED
        if not self.ledger.book(image.size_bytes):
            self.ledger.refused.append((str(label), "the budget of pinned memory is spent"))
            return False
        taken: list[torch.Tensor] = []
        try:
            for part in _split(image.host_buffers):
                self._device.pin(part)
                taken.append(part)
        except BaseException as error:
            for part in taken:
                self._device.unpin(part)
            self.ledger.give_back(image.size_bytes)
            if not isinstance(error, PinError):
                raise
            self.ledger.refused.append((str(label), str(error)))
            return False
        self._pins[id(image)] = taken
        image.tier = HostTier.PINNED
        return True

    def drop(self, image: LayerImage) -> None:
        """Give up the host copy of a layer that is on the device for good."""
        self._unpin(image)
        if image.host_buffers:
            self._copied_bytes -= image.size_bytes
        image.drop_host()
        self._images.pop(id(image), None)

    def close(self) -> None:
        """Unpin everything; the copies stay, pageable."""
        for image in list(self._images.values()):
            self._unpin(image)

    def use(self) -> HostUse:
        """Host memory in use."""
        by_tier = dict.fromkeys(HostTier, 0)
        for image in self._images.values():
            if image.tier is not None:
                by_tier[image.tier] += image.size_bytes
        return HostUse(
            pinned_bytes=by_tier[HostTier.PINNED],
            pageable_bytes=by_tier[HostTier.PAGEABLE],
            mapped_bytes=by_tier[HostTier.MAPPED],
            courier_bytes=self.courier_bytes,
            requested_pin_bytes=self.ledger.requested_bytes,
            refused_pins=tuple(f"{label}: {reason}" for label, reason in self.ledger.refused),
            peak_attach_bytes=self._peak_bytes,
            pinning=self._device.pinning,
        )

    def _unpin(self, image: LayerImage) -> None:
        parts = self._pins.pop(id(image), None)
        if parts is None:
            return
        for part in parts:
            self._device.unpin(part)
        self.ledger.give_back(image.size_bytes)
        image.tier = HostTier.PAGEABLE


def _split(buffers: list[torch.Tensor]) -> list[torch.Tensor]:
    """``buffers`` in parts of at most ``PIN_PART_BYTES``."""
    return [
        part
        for buffer in buffers
        for part in buffer.split(max(1, PIN_PART_BYTES // buffer.element_size()))
        if len(part)
    ]
