"""One layer's weights as something that can be copied: where they wait on the host, and views of them on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from runtime.devices.protocol import Moves
from runtime.hosting import HostTier
from runtime.layer_layout import LayerLayout
from runtime.weights import Weight, lay_out_weights

PAGE_BYTES = 4096

DeviceBuffers = list[torch.Tensor]
"""One per dtype of the layer, in the order of its layout."""


def allocate_host(numel: int, dtype: torch.dtype) -> torch.Tensor:
    """A one-dimensional host tensor that begins at a page, so that exactly its own pages can be locked."""
    with torch.inference_mode(False):
        raw = torch.empty(numel * dtype.itemsize + PAGE_BYTES, dtype=torch.uint8)
        start = -raw.data_ptr() % PAGE_BYTES
        return raw[start : start + numel * dtype.itemsize].view(dtype)


class LayerImage:
    """The weights of one layer.

    Weights that wait in the checkpoint file stay what they are; others are gathered in one host buffer per dtype.

    Attributes:
        weights: in the order of the layer's parameters.
        layout: where they lie in the buffers.
        tier: where the layer waits; None when it has no host copy (any more).
        host_buffers: the host copy; none for mapped layers.
    """

    def __init__(self, weights: Sequence[Weight]) -> None:
        self.weights = tuple(weights)
        self.layout: LayerLayout = lay_out_weights(self.weights)
        self.tier: HostTier | None = HostTier.MAPPED
        self.host_buffers: DeviceBuffers = []
        self._dtypes = {str(weight.dtype): weight.dtype for weight in self.weights}
        self._order = [name for name, count in self.layout.buffer_elements.items() if count]
        starts = zip(self.weights, self.layout.starts, strict=True)
        self._places = [
            (weight, self._order.index(str(weight.dtype)) if weight.span else -1, start) for weight, start in starts
        ]
        self._shown_by = [(weight.owner, weight.attribute) for weight in self.weights]
        self._host_views: list[torch.Tensor] = [weight.current() for weight in self.weights]

    @property
    def size_bytes(self) -> int:
        """Device bytes of the layer."""
        return self.layout.size_bytes

    @property
    def is_on_host(self) -> bool:
        """Whether all weights were found in host memory, as plain bytes."""
        return all(view.device.type == "cpu" and not view.is_conj() and not view.is_neg() for view in self._host_views)

    def gather(self) -> None:
        """Copy the weights into host buffers of their own and let the module show these; the originals are given up."""
        buffers = self.make_buffers(allocate_host)
        self.write_into(buffers)
        self.host_buffers = buffers
        self._host_views = self.views(buffers)
        self.tier = HostTier.PAGEABLE
        self.show_host()
        for weight in self.weights:
            weight.original = None

    def make_buffers(self, allocate: Callable[[int, torch.dtype], torch.Tensor]) -> DeviceBuffers:
        """One buffer per dtype from ``allocate``, which takes elements and dtype."""
        return [allocate(self.layout.buffer_elements[name], self._dtypes[name]) for name in self._order]

    def write_into(self, buffers: DeviceBuffers) -> None:
        """Fill ``buffers`` on the host with the weights."""
        with torch.inference_mode(False), torch.no_grad():
            for target, source in self._pairs(buffers):
                target.copy_(source)

    def moves_to(self, buffers: DeviceBuffers) -> Moves:
        """What a copy of the layer into ``buffers`` moves."""
        if self.host_buffers:
            return list(zip(buffers, self.host_buffers, strict=True))
        return self._pairs(buffers)

    def views(self, buffers: DeviceBuffers) -> list[torch.Tensor]:
        """Each weight inside ``buffers``."""
        offsets = [buffer.storage_offset() for buffer in buffers]
        return [
            buffers[index].as_strided(weight.shape, weight.stride, offsets[index] + start)
            if weight.span
            else torch.empty_strided(
                weight.shape,
                weight.stride,
                dtype=weight.dtype,
                device=buffers[0].device if buffers else weight.device,
            )
            for weight, index, start in self._places
        ]

    def show(self, buffers: DeviceBuffers) -> None:
        """Let the module compute with ``buffers``."""
        self._show(self.views(buffers))

    def show_host(self) -> None:
        """Let the module show what waits on the host."""
        self._show(self._host_views)

    def _show(self, views: list[torch.Tensor]) -> None:
        # Twice per layer and pass for every weight: a method call each would be half of what the executor costs.
        for (owner, attribute), view in zip(self._shown_by, views, strict=True):
            setattr(owner, attribute, view)

    def drop_host(self) -> None:
        """Give up the host copy of a layer that is on the device for good."""
        self.tier = None
        self.host_buffers = []
        self._host_views = []
        for weight in self.weights:
            weight.original = None

    def restore(self, read_back: Callable[[DeviceBuffers, DeviceBuffers], None], device: DeviceBuffers | None) -> None:
        """Give every weight a storage of its own again, with its values, where it was found.

        Args:
            read_back: copies device buffers to host buffers.
            device: where the layer is, if it has no host copy.
        """
        sources = self._host_views
        if self.tier is None and device is not None:
            buffers = self.make_buffers(allocate_host)
            read_back(buffers, device)
            sources = self.views(buffers)
        for weight, source in zip(self.weights, sources, strict=True):
            if weight.original is not None:
                weight.show(weight.original)
                continue
            with torch.inference_mode(False), torch.no_grad():
                own = torch.empty(weight.span, dtype=weight.dtype, device=weight.device)
                if weight.span:
                    own.copy_(weight.spanned(source))
                weight.show(own.as_strided(weight.shape, weight.stride))
        self.host_buffers, self._host_views = [], []

    def _pairs(self, buffers: DeviceBuffers) -> list[tuple[torch.Tensor, torch.Tensor]]:
        by_name = dict(zip(self._order, buffers, strict=True))
        return [
            (by_name[str(weight.dtype)][start : start + weight.span], weight.spanned(view))
            for weight, start, view in zip(self.weights, self.layout.starts, self._host_views, strict=True)
            if weight.span
        ]
