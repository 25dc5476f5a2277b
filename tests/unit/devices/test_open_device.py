"""Devices by name, and what refuses to be opened here."""

import pytest
import torch

from runtime.devices.cuda import CudaDevice
from runtime.devices.open_device import open_device
from runtime.errors import InputError, UnsupportedError


def test_the_emulated_device_has_a_name() -> None:
    device = open_device("emulated")
    assert device.name == "emulated"
    device.close()


@pytest.mark.parametrize("name", ["", "tpu", "cuda:", "cuda:x", "CUDA", "emulated:1", "cuda:0\n"])
def test_an_unknown_name_is_refused_with_those_that_are_known(name: str) -> None:
    with pytest.raises(InputError, match=r"known are cuda, cuda:0 .* and emulated"):
        open_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_card_that_is_not_there_is_not_supported(name: str) -> None:
    with pytest.raises(UnsupportedError, match="finds no CUDA device here"):
        open_device(name)
    with pytest.raises(UnsupportedError, match="use the device 'emulated'"):
        CudaDevice(0)
