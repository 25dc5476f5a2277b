"""Every device that the contract is asked of, opened and closed."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch

from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.devices.protocol import Device

UNPACED = LinkRates(
    pinned_bytes_per_s=math.inf,
    pageable_bytes_per_s=math.inf,
    d2h_bytes_per_s=math.inf,
    disk_bytes_per_s=math.inf,
    page_cache=PageCache.NOTHING,
)
# A layer of the tests (4 KiB) takes 1 to 4 ms.
PACED = LinkRates(
    pinned_bytes_per_s=2.0**22,
    pageable_bytes_per_s=2.0**21,
    d2h_bytes_per_s=2.0**22,
    disk_bytes_per_s=2.0**20,
    page_cache=PageCache.STREAM,
)

EMULATED: dict[str, dict[str, object]] = {
    "real": {"clock": ClockKind.REAL, "rates": UNPACED},
    "real-paced": {"clock": ClockKind.REAL, "rates": PACED},
    "real-late-poisoned": {"clock": ClockKind.REAL, "rates": UNPACED, "delay_seed": 5, "poison": True},
    "virtual": {"clock": ClockKind.VIRTUAL, "rates": PACED},
    "virtual-late-poisoned": {"clock": ClockKind.VIRTUAL, "rates": PACED, "delay_seed": 5, "poison": True},
}
OpenEmulated = Callable[..., EmulatedDevice]


@pytest.fixture(
    params=[
        *EMULATED,
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; torch finds none"),
            ],
        ),
    ]
)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """One device of every kind."""
    if request.param == "cuda":
        from runtime.devices.cuda import CudaDevice  # noqa: PLC0415 - only where there is one

        opened: Device = CudaDevice("cuda:0")
    else:
        opened = EmulatedDevice(**EMULATED[request.param])
    yield opened
    opened.close()


@pytest.fixture(params=EMULATED)
def open_emulated(request: pytest.FixtureRequest) -> Iterator[OpenEmulated]:
    """Opens an emulated device of every kind with further traits: those that no real device can be given."""
    opened: list[EmulatedDevice] = []

    def open_with(**traits: object) -> EmulatedDevice:
        opened.append(EmulatedDevice(**{**EMULATED[request.param], **traits}))
        return opened[-1]

    yield open_with
    for each in opened:
        each.close()
