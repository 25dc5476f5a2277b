import pytest

from autotune.observed.gpu_names import read_cards
from autotune.observed.observation import Reason
from autotune.observed.refusal import RowRefusedError
from runtime.units import GIB


def _read(gpu, vram="", component="", tp="", peak="", *, makes_images=False):
    return read_cards(gpu=gpu, vram=vram, component=component, tp=tp, peak=peak, makes_images=makes_images)


@pytest.mark.parametrize(
    ("gpu", "vram", "name"),
    [
        ("RTX 4090", "24", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "", "rtx-4090"),
        ("rtx-5090", "31.4", "rtx-5090"),
        ("RTX 5090 (physical desktop)", "32", "rtx-5090"),
        ("1x H200", "141", "h200"),
        ("1x H100 HBM3", "80", "h100"),
        ("H100 80GB HBM3", "80", "h100"),
        ("RTX 4080 16GB", "16", "rtx-4080"),
        ("RTX 4090 (24,564 MiB; torch limit 23.52 GiB)", "24", "rtx-4090"),
        ("1x B200", "~178 free", "b200"),
    ],
)
def test_card_is_found_by_its_name(gpu, vram, name):
    cards = _read(gpu, vram)
    assert (cards.device.name, cards.tp_size, cards.cap_bytes) == (name, 1, None)


@pytest.mark.parametrize(
    ("gpu", "vram"),
    [
        ("RTX 4090 D", "24"),
        ("RTX 5090 D v2", "24"),
        ("RTX 4090 Laptop GPU", "16"),
        ("RTX 4090 (laptop)", ""),
        ("RTX 4090", "48"),
        ("RTX 3060 8GB", ""),
        ("RTX 3060", "8"),
        ("1x B200 (proxy for 5090, TP1)", ""),
        ("same", ""),
        ("", ""),
    ],
)
def test_another_card_is_not_taken_for_one_with_a_preset(gpu, vram):
    with pytest.raises(RowRefusedError) as caught:
        _read(gpu, vram)
    assert caught.value.reason is Reason.UNKNOWN_DEVICE


@pytest.mark.parametrize(
    ("gpu", "component", "tp", "ranks"),
    [
        ("2x RTX 5090 (TP2, PCIe only)", "", "", 2),
        ("2x RTX 5090 TP2, 125 GB host", "", "", 2),
        ("4x RTX 5090 TP4xU1 (no GPU P2P)", "", "", 4),
        ("4x RTX 6000 Ada (P2P)", "SGLang TP4", "", 4),
        ("2x RTX 5090", "", "2", 2),
        ("RTX 5090", "", "2", 2),
        ("RTX 5090", "TP1 1 GPU", "", 1),
    ],
)
def test_cards_that_share_by_tensor_parallelism_alone_are_ranks(gpu, component, tp, ranks):
    assert _read(gpu, component=component, tp=tp).tp_size == ranks


@pytest.mark.parametrize(
    ("gpu", "component"),
    [
        ("2x RTX 5090 (Ulysses2)", ""),
        ("4x H100 80GB TP2+Ulysses2", ""),
        ("4x H100 80GB FSDP+Ulysses4", ""),
        ("4x RTX 4090 (TP2xUSP2)", ""),
        ("8x H200 (DP8xSP1)", ""),
        ("1 of 8x H200 (DP8xSP1)", ""),
        ("2x H100", ""),
        ("A100/H100 80GB multi-GPU", ""),
        ("RTX 6000 Ada", "TP1 x Ulysses2, 2 GPU"),
    ],
)
def test_cards_that_share_in_another_way_are_refused(gpu, component):
    with pytest.raises(RowRefusedError, match="cards shared the model") as caught:
        _read(gpu, component=component)
    assert caught.value.reason is Reason.SEVERAL_GPUS


def test_count_that_depends_on_the_kind_of_model_is_that_of_the_model():
    text = "H100 80GB (4 GPU for video, 1 for image)"
    assert _read(text, makes_images=True).tp_size == 1
    with pytest.raises(RowRefusedError, match="4 cards"):
        _read(text, makes_images=False)


@pytest.mark.parametrize(
    ("gpu", "vram", "peak"),
    [
        ("RTX 4090 (hard 12 GiB allocator cap)", "12 cap", ""),
        ("RTX 4090", "12 GiB allocator cap", ""),
        ("RTX 4090", "24 (12 GiB cap test)", ""),
        ("RTX 4090 (cap 12 GiB)", "24", ""),
        ("RTX 4090", "12 GiB", "<= cap GiB hard cap"),
    ],
)
def test_cap_of_the_allocator_is_read(gpu, vram, peak):
    assert _read(gpu, vram, peak=peak).cap_bytes == 12 * GIB


def test_cap_that_the_card_cannot_reach_is_none():
    assert _read("RTX 4090", "24 GiB cap").cap_bytes is None
