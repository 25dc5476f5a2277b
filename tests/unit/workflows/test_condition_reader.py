"""Whose conditions are read while a device is profiled."""

from types import SimpleNamespace

import torch
from fake_nvml import FakeNvml, FakeTorch, big_card
from trees import read_tree

from autotune.measure.node_readings import NodeReadings
from autotune.telemetry.answers import Unknown
from autotune.telemetry.conditions import DeviceConditions
from autotune.telemetry.survey import Surroundings, read_process_gpu
from autotune.workflows.profiling import _choose_reader

CARD = big_card()


def look_at(backend, gpu):
    """The UUID that is asked about, in place of its conditions; or the conditions where nothing is asked."""
    target = SimpleNamespace(is_exact=False, device=SimpleNamespace(torch_device=torch.device(backend), name=backend))
    around = SimpleNamespace(read_conditions=lambda uuid: ("asked", uuid))
    return _choose_reader(target, NodeReadings(machine=None, host=None, gpu=gpu), around)()


def read_gpu(tmp_path, **traits):
    card = big_card(**traits)
    where = Surroundings(
        load_nvml=lambda: FakeNvml(card), torch=FakeTorch(CARD, tells_uuid=False), host=read_tree(tmp_path)
    )
    return read_process_gpu(0, where)


def test_a_card_is_asked_by_its_uuid(tmp_path):
    assert look_at("cuda", read_gpu(tmp_path)) == ("asked", CARD.uuid)


def test_of_the_processor_its_load_is_read():
    assert look_at("cpu", Unknown(reason="the device cpu is no card")) == ("asked", None)


def test_a_card_that_is_unknown_is_not_given_the_load_of_the_processor():
    seen = look_at("cuda", Unknown(reason="no NVIDIA driver answers"))
    assert seen == DeviceConditions(at_s=0.0, unknown={"uuid": "no NVIDIA driver answers"})


def test_a_card_without_a_uuid_is_not_given_the_load_of_the_processor(tmp_path):
    seen = look_at("cuda", read_gpu(tmp_path, uuid=Exception("not told")))
    assert seen == DeviceConditions(at_s=0.0, unknown={"uuid": "the driver does not tell it"})
