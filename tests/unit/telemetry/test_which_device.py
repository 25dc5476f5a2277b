"""T2: NVML's index is not CUDA's index."""

import pytest
from fake_nvml import FakeCard, FakeNvml, FakeTorch, big_card, mig_card, small_card, uuid_of

from autotune.detect import probe_gpu
from autotune.telemetry.answers import Unknown
from autotune.telemetry.survey import read_process_gpu, survey_gpus
from runtime.errors import InputError
from runtime.units import GIB

LIST, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
BIG, SMALL = uuid_of(0xB), uuid_of(0xA)


def visible(text):
    return {} if text is None else {LIST: text}


def used_uuids(survey):
    return [survey.readings[at].uuid for at in survey.used]


@pytest.mark.parametrize("tells_uuid", [True, False], ids=["by UUID", "by PCI address"])
@pytest.mark.parametrize("text", [None, "0", "1", "1,0", BIG])
def test_t2_device_0_of_cuda_is_found_by_what_the_runtime_reports(look, text, tells_uuid):
    small, big = small_card(), big_card()
    torch = FakeTorch(big, small, tells_uuid=tells_uuid)
    reading = read_process_gpu(0, look(FakeNvml(small, big), torch, **visible(text)))
    assert (reading.uuid, reading.total_bytes) == (BIG, 24 * GIB)
    survey = survey_gpus(look(FakeNvml(small, big), torch, **visible(text)))
    assert used_uuids(survey) == [BIG]
    assert "that the CUDA runtime reports" in survey.explanation


@pytest.mark.parametrize(
    ("environ", "uuid"),
    [
        ({LIST: BIG}, BIG),
        ({LIST: "GPU-0000000b"}, BIG),
        ({LIST: f"{SMALL},{BIG}"}, SMALL),
        ({LIST: "1", ORDER: "PCI_BUS_ID"}, BIG),
        ({LIST: "1,0", ORDER: "PCI_BUS_ID"}, BIG),
        ({LIST: " 1 , 0", ORDER: "PCI_BUS_ID"}, BIG),
        ({ORDER: "PCI_BUS_ID"}, SMALL),
    ],
)
def test_t2_without_cuda_a_uuid_or_the_bus_order_names_the_card(look, environ, uuid):
    # NVML's own order is that of neither.
    survey = survey_gpus(look(FakeNvml(big_card(), small_card()), **environ))
    assert (used_uuids(survey), survey.is_settled) == ([uuid], True)


@pytest.mark.parametrize("text", [None, "0", "1", "1,0"])
def test_t2_without_cuda_an_index_among_different_cards_is_unknown_and_says_what_to_do(look, text):
    where = look(FakeNvml(small_card(), big_card()), **visible(text))
    survey = survey_gpus(where)
    assert (survey.used, survey.is_settled) == ((), False)
    assert f"{SMALL} or {BIG}" in survey.explanation
    with pytest.raises(InputError, match=r"which GPU is meant cannot be told.*CUDA_DEVICE_ORDER.*--device"):
        probe_gpu(where)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "shows 0 cards"),
        ("-1", "shows 0 cards"),
        ("-1,0", "shows 0 cards"),
        ("NoDevFiles", "shows 0 cards"),
        ("7", "shows 0 cards"),
        ("0,0", "names a card twice"),
        ("GPU-dead", "the UUID of no card here"),
        ("GPU-0000000", "the beginning of several cards' UUIDs"),
    ],
)
def test_t2_an_empty_list_minus_one_and_nonsense_mean_no_device(look, text, reason):
    where = look(FakeNvml(small_card(), big_card()), **{LIST: text})
    survey = survey_gpus(where)
    assert (survey.used, survey.is_settled) == ((), True)
    assert reason in survey.explanation
    assert probe_gpu(where).gpu is None


@pytest.mark.parametrize("text", [None, "0", "1"])
def test_an_index_among_cards_that_are_alike_names_their_kind_and_no_uuid(look, text):
    cards = big_card(used_bytes=GIB), big_card(uuid=SMALL, used_bytes=3 * GIB)
    where = look(FakeNvml(*cards), **visible(text))
    assert survey_gpus(where).used == (0, 1)
    gpu = probe_gpu(where).gpu
    assert (gpu.title, gpu.memory_bytes, gpu.uuid) == ("NVIDIA GeForce RTX 4090", 24 * GIB, None)
    assert gpu.free_bytes == 24 * GIB - GIB // 2 - 3 * GIB


def test_the_only_card_is_the_one_whatever_its_kind(look):
    gpu = probe_gpu(look(FakeNvml(big_card()), **{LIST: "0"})).gpu
    assert gpu.uuid == BIG


@pytest.mark.parametrize("text", ["0x1", "1abc", "MIG-GPU-0000000b-2222-3333-4444-555555555555/1/0"])
def test_a_spelling_that_only_cuda_understands_is_unknown(look, text):
    survey = survey_gpus(look(FakeNvml(small_card(), big_card()), **{LIST: text}))
    assert (survey.used, survey.is_settled) == ((), False)


def test_t2_a_mig_uuid_names_the_instance_with_its_own_memory(look):
    card = mig_card(10, 20)
    where = look(FakeNvml(small_card(), card), **{LIST: uuid_of(0xC1, "MIG")})
    survey = survey_gpus(where)
    [at] = survey.used
    reading = survey.readings[at]
    assert (reading.uuid, reading.total_bytes, reading.mig_profile) == (uuid_of(0xC1, "MIG"), 20 * GIB, "2g.20gb")
    assert (reading.temperature_c, reading.utilization_ratio) == (41, None)
    with pytest.raises(InputError, match="a part of a GPU"):
        probe_gpu(where)


def test_t2_cuda_reports_the_whole_cards_uuid_for_an_instance(look):
    card = mig_card(10, 20)
    opened = look(FakeNvml(card), FakeTorch(card), **{LIST: uuid_of(0xC1, "MIG")})
    assert read_process_gpu(0, opened).uuid == uuid_of(0xC1, "MIG")
    answer = read_process_gpu(0, look(FakeNvml(card), FakeTorch(card)))
    assert isinstance(answer, Unknown)
    assert "to the UUID of the instance" in answer.reason
    newer = look(FakeNvml(card), FakeTorch(card.instances[0]))
    assert read_process_gpu(0, newer).total_bytes == 10 * GIB


@pytest.mark.parametrize(("sizes", "settled", "used"), [((), True, 0), ((10,), True, 1), ((10, 20), False, 0)])
def test_a_card_in_mig_mode_is_never_used_as_a_whole(look, sizes, settled, used):
    survey = survey_gpus(look(FakeNvml(mig_card(*sizes))))
    assert (survey.is_settled, len(survey.used), len(survey.readings)) == (settled, used, len(sizes))


def test_a_second_device_of_the_process_is_its_own_card(look):
    small, big = small_card(), big_card()
    where = look(FakeNvml(small, big), FakeTorch(big, small))
    assert read_process_gpu(1, where).uuid == SMALL


def test_a_device_that_nvml_does_not_list_is_unknown(look):
    answer = read_process_gpu(0, look(FakeNvml(small_card()), FakeTorch(big_card())))
    assert isinstance(answer, Unknown)
    assert "NVML lists no card with the UUID 0000000b" in answer.reason


def test_a_part_that_shares_the_hosts_memory_is_no_card_to_plan_for(look):
    detection = probe_gpu(look(FakeNvml(FakeCard(title="NVIDIA Thor", total_bytes=0))))
    assert detection.gpu is None
    assert "NVIDIA Thor shares the host's memory" in detection.reason


def test_without_a_driver_nothing_is_detected_and_the_reason_kept(look):
    detection = probe_gpu(look(FakeNvml(init_error=OSError("no driver"))))
    assert (detection.gpu, detection.reason) == (None, "no NVIDIA driver answers: no driver")
