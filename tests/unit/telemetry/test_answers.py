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


FUNCTIONS = [name for name in dir(FakeNvml) if name.startswith("nvml") and name not in {"nvmlInit", "nvmlMemory_v2"}]
NONSENSE = [RuntimeError("broken"), OSError(5, "I/O error"), None, -1, 2**64 - 1, "text", b"\xff", (), [None], object()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whatever_one_call_does_the_others_still_answer(look, name):
    for nonsense in NONSENSE:
        for card in (big_card(compute=[process(7)]), mig_card(10, 20)):
            nvml = FakeNvml(card)

            def answer(*arguments, nonsense=nonsense):
                if isinstance(nonsense, Exception):
                    raise nonsense
                return nonsense

            setattr(nvml, name, answer)
            survey = survey_gpus(look(nvml))
            read_conditions(card.uuid, load_nvml=lambda nvml=nvml: nvml)
            assert all(reading.title or reading.unknown["title"] for reading in survey.readings)
            assert survey.explanation


def test_software_that_is_damaged_or_missing_has_no_version():
    def find(name):
        if name == "torch":
            return "2.13.0"
        raise ValueError("damaged")

    versions = {each.name: each.version for each in read_software(find)}
    assert versions["torch"] == "2.13.0"
    assert versions["sglang"] is None
    assert versions["python"]
