from types import SimpleNamespace

import pytest
from fake_nvml import FakeNvml, big_card, mig_card, process

from autotune.telemetry.answers import Unknown
from autotune.telemetry.conditions import read_conditions
from autotune.telemetry.nvml import open_nvml
from autotune.telemetry.reading import GpuReading
from autotune.telemetry.software import read_software
from autotune.telemetry.survey import survey_gpus
from runtime.errors import InputError


def reading_of(**figures):
    nothing = dict.fromkeys(name for name in GpuReading.__dataclass_fields__ if name not in {"sources", "unknown"})
    return GpuReading(**{**nothing, "sources": {}, "unknown": {}, **figures})


def test_an_unknown_figure_needs_a_reason():
    with pytest.raises(InputError, match="needs a reason"):
        Unknown(reason=" ")


@pytest.mark.parametrize(
    "figures",
    [
        {"total_bytes": 5},
        {"sources": {"total_bytes": "NVML"}},
        {"total_bytes": 5, "sources": {"total_bytes": "NVML"}, "unknown": {"total_bytes": "no"}},
        {"free_bytes": -1, "sources": {"free_bytes": "NVML"}},
        {"is_unified": True, "total_bytes": 5, "sources": {"is_unified": "CUDA", "total_bytes": "NVML"}},
    ],
)
def test_a_reading_that_contradicts_itself_is_refused(figures):
    with pytest.raises(InputError):
        reading_of(**figures)


def test_nvml_may_be_opened_again_inside():
    nvml = FakeNvml(big_card())
    with open_nvml(lambda: nvml) as outer, open_nvml(lambda: nvml) as inner:
        assert nvml.opened == 2
        assert outer.driver_version() == inner.driver_version() == "580.65.06"
    assert nvml.opened == 0


def test_a_function_that_the_library_lacks_is_unknown():
    class Old:
        def nvmlInit(self):  # noqa: N802 - the library's name
            pass

    with open_nvml(Old) as nvml:
        answer = nvml.devices()
    assert answer.is_unsupported
    assert "has no nvmlDeviceGetCount" in answer.reason


FIGURES = set(GpuReading.__dataclass_fields__) - {"sources", "unknown"}
FIGURES_OF = {
    "nvmlShutdown": set(),
    "nvmlSystemGetDriverVersion": {"driver"},
    "nvmlDeviceGetCount": FIGURES,
    "nvmlDeviceGetHandleByIndex": FIGURES,
    "nvmlDeviceGetHandleByUUID": set(),
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": set(),
    "nvmlDeviceGetName": {"title"},
    "nvmlDeviceGetUUID": {"uuid"},
    "nvmlDeviceGetPciInfo": {"bus_id"},
    "nvmlDeviceGetMemoryInfo": {"is_unified", "total_bytes", "usable_bytes", "free_bytes", "others_bytes"},
    "nvmlDeviceGetCudaComputeCapability": {"compute_capability"},
    "nvmlDeviceGetCurrPcieLinkGeneration": {"link_current"},
    "nvmlDeviceGetCurrPcieLinkWidth": {"link_current"},
    "nvmlDeviceGetMaxPcieLinkGeneration": {"link_max"},
    "nvmlDeviceGetMaxPcieLinkWidth": {"link_max"},
    "nvmlDeviceGetTemperature": {"temperature_c"},
    "nvmlDeviceGetClockInfo": {"sm_clock_mhz", "memory_clock_mhz"},
    "nvmlDeviceGetMaxClockInfo": {"max_sm_clock_mhz"},
    "nvmlDeviceGetCurrentClocksEventReasons": {"throttle_reasons"},
    "nvmlDeviceGetUtilizationRates": {"utilization_ratio"},
    "nvmlDeviceGetPowerUsage": {"power_w"},
    "nvmlDeviceGetComputeRunningProcesses": {"processes", "own_bytes", "others_bytes", "context_bytes"},
    "nvmlDeviceGetGraphicsRunningProcesses": {"processes"},
    # A mode that reads as "on" makes of the card its instances, of which it has none.
    "nvmlDeviceGetMigMode": FIGURES,
    "nvmlDeviceGetMaxMigDeviceCount": set(),
    "nvmlDeviceGetMigDeviceHandleByIndex": set(),
}
"""Function -> the figures of a whole card that depend on it."""
NONSENSE = [
    RuntimeError("broken"),
    OSError(5, "I/O error"),
    None,
    -1,
    2**64 - 1,
    "text",
    b"\xff",
    (),
    [None],
    SimpleNamespace(),
]


def spoil(card, name, nonsense):
    """A library in which the function ``name`` raises or returns ``nonsense``."""

    def answer(*arguments):
        if isinstance(nonsense, Exception):
            raise nonsense
        return nonsense

    nvml = FakeNvml(card)
    setattr(nvml, name, answer)
    return nvml


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
@pytest.mark.parametrize("name", FIGURES_OF)
def test_whatever_one_call_does_the_figures_of_the_others_stay(look, name, nonsense):
    card = big_card(compute=[process(7)], graphics=[process(8)])
    [healthy] = survey_gpus(look(FakeNvml(card))).readings
    survey = survey_gpus(look(spoil(card, name, nonsense)))
    assert len(survey.readings) == 1 or FIGURES_OF[name] == FIGURES
    for reading in survey.readings:
        changed = {figure for figure in FIGURES if getattr(reading, figure) != getattr(healthy, figure)}
        assert changed <= FIGURES_OF[name]


@pytest.mark.parametrize("name", FIGURES_OF)
def test_whatever_one_call_does_a_survey_and_conditions_come_back(look, name):
    for nonsense in NONSENSE:
        for card in (big_card(compute=[process(7)]), mig_card(10, 20)):
            nvml = spoil(card, name, nonsense)
            assert survey_gpus(look(nvml)).explanation
            assert read_conditions(card.uuid, load_nvml=lambda nvml=nvml: nvml).uuid == card.uuid


def test_every_function_that_is_asked_for_was_tried():
    functions = {name for name in dir(FakeNvml(big_card())) if name.startswith("nvml")}
    assert functions - {"nvmlInit", "nvmlMemory_v2"} == set(FIGURES_OF)


def test_software_that_is_damaged_or_missing_has_no_version():
    def find(name):
        if name == "torch":
            return "2.13.0"
        raise ValueError("damaged")

    versions = {each.name: each.version for each in read_software(find)}
    assert versions["torch"] == "2.13.0"
    assert versions["sglang"] is None
    assert versions["python"]
