"""Errors of a driver stay until somebody clears them: the emulated one, too."""

import pytest
import torch

from runtime.devices.pinning import EmulatedPinDriver, Pins
from runtime.errors import DeviceError, PinError


def refuse(size_bytes: int) -> None:
    raise OSError(f"cannot lock {size_bytes} bytes")


def test_an_error_that_nobody_clears_is_reported_by_the_next_call() -> None:
    driver = EmulatedPinDriver(refuse, byte_scale=2)
    with pytest.raises(OSError, match="cannot lock 8 bytes"):
        driver.register(64, 4)
    with pytest.raises(DeviceError, match="An earlier call failed: cannot lock 8 bytes"):
        driver.report_error()
    driver.report_error()


def test_a_refused_pin_clears_it() -> None:
    driver = EmulatedPinDriver(refuse, byte_scale=1)
    pins = Pins(driver)
    with pytest.raises(PinError, match="4 bytes of host memory could not be pinned beside 0 that are: cannot lock"):
        pins.pin(torch.zeros(4, dtype=torch.int8))
    driver.report_error()
    assert pins.pinned_bytes == 0


def test_slots_have_pages_of_their_own() -> None:
    pins = Pins(EmulatedPinDriver(None, byte_scale=1))
    slots = pins.take_slots(100)
    assert [slot.nbytes for slot in slots] == [100, 100]
    assert all(slot.data_ptr() % 4096 == 0 for slot in slots)
    assert pins.pinned_bytes == 200
    pins.give_slots_back(slots)
    assert pins.pinned_bytes == 0


@pytest.mark.parametrize("buffer", [torch.zeros(0), torch.zeros(4, 4).t()[1:], torch.zeros(4, device="meta")])
def test_what_cannot_be_locked_is_refused(buffer: torch.Tensor) -> None:
    with pytest.raises(PinError, match="contiguous host tensors that are not empty"):
        Pins(EmulatedPinDriver(None, byte_scale=1)).pin(buffer)


def test_a_refused_second_slot_leaves_the_first_unpinned() -> None:
    sizes: list[int] = []

    def refuse_second(size_bytes: int) -> None:
        sizes.append(size_bytes)
        if len(sizes) == 2:
            refuse(size_bytes)

    pins = Pins(EmulatedPinDriver(refuse_second, byte_scale=1))
    with pytest.raises(PinError, match="beside 100 that are"):
        pins.take_slots(100)
    assert pins.pinned_bytes == 0
