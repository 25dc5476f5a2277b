"""Conditions around a measurement, and what makes it dirty."""

from functools import partial

import pytest
from fake_nvml import MISMATCH, NOT_SUPPORTED, FakeNvml, big_card, mig_card, process, small_card, uuid_of

from autotune.host_memory.tree import ControlFiles
from autotune.telemetry.answers import Unknown
from autotune.telemetry.conditions import DeviceConditions, read_conditions
from autotune.telemetry.disturbances import find_disturbances
from autotune.telemetry.machine_load import MachineLoad, read_machine_load
from autotune.telemetry.processes import OwnProcess
from autotune.telemetry.throttling import name_reasons
from runtime.errors import InputError

BIG = uuid_of(0xB)
OWN = OwnProcess(pid=4242, has_pid_namespace=False, has_context=True)


def read(card, *, own=OWN, at_s=0.0, uuid=BIG):
    nvml = FakeNvml(small_card(), card)
    return read_conditions(uuid, own=own, load_nvml=lambda: nvml, clock=lambda: at_s)


def compare(before, after):
    return find_disturbances(read(big_card(**before)), read(big_card(**after), at_s=1.0))


def busy(at_s, busy_s, own_s=0.0):
    return DeviceConditions(at_s=at_s, load=MachineLoad(at_s=at_s, busy_s=busy_s, own_s=own_s, cpus=4))


def test_conditions_are_those_of_the_card_with_the_uuid():
    seen = read(big_card(clocks_mhz=(2400, 10000), temperature=66, reasons=0x4, compute=[process(OWN.pid)]), at_s=7.0)
    assert (seen.at_s, seen.sm_clock_mhz, seen.memory_clock_mhz, seen.temperature_c) == (7.0, 2400, 10000, 66)
    assert (seen.throttle_reasons, seen.other_count, seen.other_pids) == (("sw_power_cap",), 0, ())
    assert (seen.load, dict(seen.unknown)) == (None, {})


def test_conditions_of_a_mig_instance_are_its_cards():
    seen = read(mig_card(10, 20), uuid=uuid_of(0xC1, "MIG"))
    assert (seen.sm_clock_mhz, seen.temperature_c) == (2520, 41)


@pytest.mark.parametrize("nvml", [FakeNvml(small_card()), FakeNvml(init_error=MISMATCH)])
def test_conditions_that_cannot_be_read_are_unknown_with_their_reason(nvml):
    seen = read_conditions(BIG, own=OWN, load_nvml=lambda: nvml)
    assert seen.sm_clock_mhz is seen.throttle_reasons is None
    [sentence] = find_disturbances(seen, seen)
    assert sentence == f"the conditions of the card are unknown: {seen.unknown['uuid']}"


def test_a_card_that_stops_answering_during_the_run_is_a_disturbance():
    lost = DeviceConditions(at_s=1.0, uuid=BIG, unknown={"uuid": "GPU is lost"})
    assert find_disturbances(read(big_card()), lost) == ("the conditions of the card are unknown: GPU is lost",)


def test_only_the_unsupported_condition_is_unknown():
    seen = read(big_card(temperature=NOT_SUPPORTED, compute=NOT_SUPPORTED))
    assert sorted(seen.unknown) == ["other_count", "temperature_c"]
    assert (seen.sm_clock_mhz, seen.other_count) == (2520, None)


def test_a_quiet_run_has_no_disturbances():
    quiet = {"compute": [process(OWN.pid)], "reasons": 0x1 | 0x2 | 0x100}
    assert compare(quiet, quiet) == ()


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (0x4, "sw_power_cap"),
        (0x8, "hw_slowdown"),
        (0x20, "sw_thermal_slowdown"),
        (0x40, "hw_thermal_slowdown"),
        (0x80, "hw_power_brake_slowdown"),
        (0x200, "board_limit"),
        (0x400, "reliability"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_throttling_by_heat_power_voltage_or_hardware_is_named(bit, name, is_first):
    throttled = {"reasons": bit, "temperature": 87}
    [sentence] = compare(throttled, {}) if is_first else compare({}, throttled)
    assert sentence == f"the card was throttled at 87 °C: {name}"


def test_other_compute_processes_are_counted_and_named():
    [sentence] = compare({}, {"compute": [process(OWN.pid), process(7), process(9)], "graphics": [process(1)]})
    assert sentence == "2 other processes computed on the card (process 7, 9)"


def test_in_a_container_other_processes_are_counted_without_names():
    hidden = OwnProcess(pid=1, has_pid_namespace=True, has_context=True)
    seen = read(big_card(compute=[process(700), process(701)]), own=hidden)
    [sentence] = find_disturbances(seen, seen)
    assert sentence == "1 other process computed on the card"


@pytest.mark.parametrize(("last_mhz", "reasons", "is_dirty"), [(2300, 0, False), (2200, 0, True), (210, 0x1, False)])
def test_a_clock_that_falls_during_the_run_is_named_unless_the_card_went_idle(last_mhz, reasons, is_dirty):
    found = compare({"clocks_mhz": (2520, 1)}, {"clocks_mhz": (last_mhz, 1), "reasons": reasons})
    assert bool(found) is is_dirty
    assert all("from 2520 to 2200 MHz" in sentence for sentence in found)


def test_a_condition_that_the_card_does_not_tell_is_no_disturbance():
    silent = read(big_card(clocks_mhz=NOT_SUPPORTED, reasons=NOT_SUPPORTED, compute=NOT_SUPPORTED))
    assert {"sm_clock_mhz", "throttle_reasons", "other_count"} < set(silent.unknown)
    assert find_disturbances(silent, silent) == ()


@pytest.mark.parametrize("after", [DeviceConditions(at_s=1.0, uuid="GPU-other"), DeviceConditions(at_s=-1.0, uuid=BIG)])
def test_readings_that_are_no_pair_are_refused(after):
    with pytest.raises(InputError, match="read one device before and after the run"):
        find_disturbances(DeviceConditions(at_s=0.0, uuid=BIG), after)


@pytest.mark.parametrize(
    ("others_s", "own_s", "is_dirty"), [(0.0, 4.0, False), (0.3, 1.0, False), (2.0, 0.0, True), (2.0, 2.0, True)]
)
def test_on_the_cpu_the_load_of_others_is_what_our_own_time_does_not_explain(others_s, own_s, is_dirty):
    found = find_disturbances(busy(0.0, 100.0, 10.0), busy(1.0, 100.0 + others_s + own_s, 10.0 + own_s))
    assert bool(found) is is_dirty
    assert all("50.0 % of the 4 processors" in sentence for sentence in found)


def test_a_span_of_a_few_ticks_says_nothing_about_the_load():
    assert find_disturbances(busy(0.0, 0.0), busy(0.05, 0.2)) == ()


def test_the_load_is_read_from_proc_stat_without_idle_and_waiting(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu  10 20 30 4000 5000 1 2 3 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 1\nintr 5\n")
    load = read_machine_load(ControlFiles(str(tmp_path)), clock=lambda: 8.0, own_s=lambda: 0.25, ticks_per_s=100)
    assert load == MachineLoad(at_s=8.0, busy_s=0.66, own_s=0.25, cpus=2)


@pytest.mark.parametrize(
    "text", [None, "", "cpu 1 2\ncpu0 1\n", "cpu a b c d e f g h\ncpu0\n", "cpu  1 2 3 4 5 6 7 8\n"]
)
def test_a_damaged_proc_stat_is_unknown(tmp_path, text):
    (tmp_path / "proc").mkdir()
    if text is not None:
        (tmp_path / "proc/stat").write_text(text)
    assert isinstance(read_machine_load(ControlFiles(str(tmp_path))), Unknown)


def test_the_cpu_has_a_load_and_no_card_is_asked():
    load = MachineLoad(at_s=3.0, busy_s=1.0, own_s=0.5, cpus=4)
    ask = partial(pytest.fail, "a card was asked")
    seen = read_conditions(None, load_nvml=ask, read_load=lambda: load, clock=lambda: 3.0)
    assert seen == DeviceConditions(at_s=3.0, load=load)


def test_a_load_that_cannot_be_read_is_unknown_with_its_reason():
    seen = read_conditions(None, read_load=lambda: Unknown(reason="no /proc here"))
    assert (seen.load, dict(seen.unknown)) == (None, {"load": "no /proc here"})


def test_reasons_without_a_name_keep_their_bit():
    assert name_reasons(0x1 | 0x20 | 0x8000) == ("gpu_idle", "sw_thermal_slowdown", "reason_0x8000")
