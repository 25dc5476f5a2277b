"""Which of this machine's cards stored profiles are of."""

import pytest
from fake_nvml import FakeNvml, big_card, small_card
from profile_builders import CARD, NOW, build_fingerprint, build_model_profile, build_node_profile

from autotune.detect import detect_gpu
from autotune.measurements.model_profile import DeviceKind
from autotune.measurements.store import ProfileStore
from autotune.telemetry.software import find_versions
from autotune.telemetry.survey import Surroundings, survey_gpus
from autotune.workflows.profile_judgement import judge_here
from autotune.workflows.stored_profiles import find_node_of_kind, is_here, look_around

MEANT = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
BIG, SMALL = big_card(), small_card()


def kind_of(card):
    return DeviceKind(backend="cuda", title=card.title, memory_bytes=card.total_bytes, capability="8.9")


def look_at(*cards, environ):
    """A machine with ``cards``; where the environment does not say which is meant, none is."""
    survey = survey_gpus(Surroundings(load_nvml=lambda: FakeNvml(*cards), environ=environ))
    return look_around(detect_gpu(survey).gpu if environ else None, NOW, survey)


@pytest.mark.parametrize("environ", [MEANT, {}], ids=["one is meant", "none is meant"])
@pytest.mark.parametrize("card", [BIG, SMALL], ids=["big", "small"])
def test_a_profile_of_any_of_several_cards_is_of_this_machine(card, environ):
    here = look_at(SMALL, BIG, environ=environ)
    profile = build_model_profile(kind=kind_of(card), measured_at=NOW.isoformat())
    assert judge_here(profile, here).is_valid
    elsewhere = look_at(SMALL if card is BIG else BIG, environ=environ)
    assert any("which this machine does not have" in reason for reason in judge_here(profile, elsewhere).reasons)


def test_the_links_and_the_free_memory_of_a_card_are_its_own_not_those_of_the_first(tmp_path):
    here = look_at(SMALL, BIG, environ=MEANT)
    store = ProfileStore(tmp_path)
    for name, card in (("cuda:0", SMALL), ("cuda:1", BIG)):
        node = build_fingerprint(kind=kind_of(card), device=name, device_uuid=card.uuid)
        store.save_node(build_node_profile(node=node, measured_at=NOW.isoformat(), versions={}))
    found = find_node_of_kind(store, kind_of(BIG), here).found
    assert found is not None
    assert found.profile.node.device == "cuda:1"
    assert here.find_free_bytes(kind_of(BIG)) == here.cards[BIG.uuid] != here.cards[SMALL.uuid]


def test_a_damaged_installation_has_no_version_and_stops_nobody():
    def find_version(name):
        if name == "torch":
            raise KeyError(name)
        return "1.0"

    assert find_versions(("torch", "diffusers"), find_version) == {"diffusers": "1.0"}


def test_a_card_of_another_kind_is_not_here():
    assert not is_here(CARD, look_at(SMALL, environ=MEANT))
