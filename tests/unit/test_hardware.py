import math
import subprocess
import sys
from dataclasses import fields, replace

import pytest

from autotune.hardware import GIVEN_BY_USER, DevicePreset, find_device, list_devices
from runtime.errors import InputError
from runtime.units import GIB, MIB

SLUGS = (
    "rtx-3060-12g",
    "rtx-3090",
    "rtx-4070-ti-super",
    "rtx-4080",
    "rtx-4090",
    "rtx-5090",
    "rtx-6000-ada",
    "l40s",
    "a100-40g",
    "a100-80g",
    "h100",
    "h200",
    "b200",
)
# One MiniMax-H3 DiT pass: 2 x rows x active parameters, and 4 x rows^2 x 7,168 x 50 of attention.
H3_ACTIVE_PARAMETERS = 50 * (4 * 5376 * 7168 + 3 * 5376 * 14336)
H3_ROWS_1344X768 = 38_222


def h3_pass_s(device, rows):
    linear_flops = 2 * rows * H3_ACTIVE_PARAMETERS
    attention_flops = 4 * rows**2 * 7168 * 50
    return linear_flops / device.effective_matmul_flops_per_s(
        "bfloat16"
    ) + attention_flops / device.effective_attention_flops_per_s("bfloat16")


def test_the_presets_are_the_named_cards():
    assert tuple(device.name for device in list_devices()) == SLUGS


@pytest.mark.parametrize("device", list_devices(), ids=lambda device: device.name)
def test_every_figure_of_a_preset_has_a_source(device):
    described = {"name", "title", "aliases", "architecture", "sources", "family_figures"}
    figures = {attribute.name for attribute in fields(DevicePreset)} - described
    assert figures == set(device.sources)
    assert all(len(text) > 10 for text in device.sources.values())


@pytest.mark.parametrize("device", list_devices(), ids=lambda device: device.name)
def test_a_process_sees_less_than_the_card_and_links_stay_below_their_limit(device):
    assert 0.95 * device.memory_bytes < device.usable_vram_bytes < device.memory_bytes
    assert device.pageable_bytes_per_s < device.pinned_bytes_per_s < device.link_limit_bytes_per_s
    assert device.d2h_pinned_bytes_per_s < device.link_limit_bytes_per_s
    assert device.context_bytes < 0.1 * device.usable_vram_bytes


@pytest.mark.parametrize("device", list_devices(), ids=lambda device: device.name)
def test_rates_are_dense_and_ordered_by_precision(device):
    rates = device.matrix_flops_per_s
    assert rates["float32"] <= rates["tf32"] < rates["bfloat16"] == rates["float16"]
    if "fp8" in rates:
        assert math.isclose(rates["fp8"], 2 * rates["bfloat16"], rel_tol=0.02)


def test_a_geforce_card_has_the_rate_of_fp32_accumulation():
    assert find_device("rtx-4090").matrix_flops_per_s["bfloat16"] == 165.2e12
    assert find_device("rtx-5090").matrix_flops_per_s["bfloat16"] == 209.5e12


def test_usable_memory_of_a_4090_is_what_its_driver_leaves():
    device = find_device("rtx-4090")
    assert device.memory_bytes == 24_564 * MIB
    assert round(device.usable_vram_bytes / GIB, 2) == 23.52


def test_ampere_has_no_fp8_rate():
    with pytest.raises(InputError, match="rtx-3090 has no matrix rate for 'fp8': it has bfloat16"):
        find_device("rtx-3090").effective_matmul_flops_per_s("fp8")


def test_fp32_products_use_their_own_ratio():
    device = find_device("rtx-4090")
    assert device.effective_matmul_flops_per_s("float32") == pytest.approx(82.6e12 * 0.66)
    assert device.effective_matmul_flops_per_s("bfloat16") == pytest.approx(165.2e12 * 0.95)


@pytest.mark.parametrize(
    "name", ["rtx-4090", "RTX 4090", "rtx 4090", "NVIDIA GeForce RTX 4090", "4090", "GeForce RTX-4090", " RTX  4090 "]
)
def test_a_card_is_found_by_slug_title_or_alias(name):
    assert find_device(name).name == "rtx-4090"


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA GeForce RTX 3060", "rtx-3060-12g"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA A100-SXM4-40GB", "a100-40g"),
        ("NVIDIA A100-SXM4-80GB", "a100-80g"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
    ],
)
def test_the_name_that_the_driver_reports_finds_the_card(name, slug):
    assert find_device(name).name == slug


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("RTX 4090 Laptop GPU", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 D", "rtx-4090"),
        ("RTX 4080 SUPER", "rtx-4080"),
        ("NVIDIA H100 PCIe", "h100"),
        ("RTX 509", "rtx-5090"),
    ],
)
def test_a_similar_card_is_named_but_never_used(name, closest):
    with pytest.raises(InputError, match=f"known are rtx-3060-12g, .*closest is {closest}"):
        find_device(name)


def test_a_name_like_no_card_gets_the_list_only():
    with pytest.raises(InputError, match=r"no device is called 'abacus': known are [a-z0-9, -]+b200$"):
        find_device("abacus")


def test_a_name_shared_by_two_sizes_is_checked_against_the_drivers_total():
    assert find_device("NVIDIA GeForce RTX 3060", memory_bytes=12_288 * MIB).name == "rtx-3060-12g"
    with pytest.raises(InputError, match=r"reports 8\.00 GiB, the preset rtx-3060-12g has 12\.00 GiB"):
        find_device("NVIDIA GeForce RTX 3060", memory_bytes=8_192 * MIB)


def test_the_users_figure_replaces_the_presets_and_says_so():
    device = find_device("rtx-3060-12g")
    changed = device.with_overrides(pinned_bytes_per_s=3.3e9, usable_vram_bytes=None)
    assert changed.pinned_bytes_per_s == 3.3e9
    assert changed.sources["pinned_bytes_per_s"] == GIVEN_BY_USER
    assert "pinned_bytes_per_s" not in changed.family_figures
    assert changed.sources["memory_bytes"] == device.sources["memory_bytes"]
    assert device.pinned_bytes_per_s == 24e9


def test_without_overrides_the_preset_itself_comes_back():
    device = find_device("l40s")
    assert device.with_overrides(pinned_bytes_per_s=None) is device


def test_an_unknown_override_is_refused():
    with pytest.raises(InputError, match="a device has no figure pcie_color: it has memory_bytes"):
        find_device("l40s").with_overrides(pcie_color=4)


@pytest.mark.parametrize(
    ("figure", "value", "rule"),
    [
        ("pinned_bytes_per_s", 0.0, "must be positive and finite"),
        ("pinned_bytes_per_s", math.inf, "must be positive and finite"),
        ("usable_vram_bytes", -1, "must be positive and finite"),
        ("matmul_ratio", math.nan, "must be positive and finite"),
        ("matmul_ratio", 1.2, "a ratio is at most 1"),
        ("usable_vram_bytes", 25 * GIB, "exceeds the card's"),
        ("pcie_generation", 9, "pcie_generation is 9: known are 3, 4, 5, 6"),
    ],
)
def test_an_impossible_figure_is_refused(figure, value, rule):
    with pytest.raises(InputError, match=rule):
        find_device("rtx-4090").with_overrides(**{figure: value})


def test_a_preset_without_a_source_is_refused():
    device = find_device("rtx-4090")
    sources = {name: text for name, text in device.sources.items() if name != "pinned_bytes_per_s"}
    with pytest.raises(InputError, match="rtx-4090 has no source for pinned_bytes_per_s"):
        replace(device, sources=sources)


def test_a_preset_without_matrix_rates_is_refused():
    with pytest.raises(InputError, match="matrix_flops_per_s is empty"):
        replace(find_device("rtx-4090"), matrix_flops_per_s={})


def test_the_4090_predicts_the_public_h3_step_with_everything_pinned():
    # 864x480 is 0.40 of the area of 1344x768; the prompt's 512 rows do not shrink. Public: ~6 s per step (PM141).
    rows = round((H3_ROWS_1344X768 - 512) * 864 * 480 / (1344 * 768)) + 512
    assert h3_pass_s(find_device("rtx-4090"), rows) == pytest.approx(6.0, rel=0.1)


def test_the_5090_is_faster_than_the_public_two_card_run_by_no_more_than_its_all_reduces():
    # PM010: 525.05 s for 49 passes on two cards, all-reduces over PCIe included.
    measured_s = 525.05 / 49
    assert 0.85 * measured_s < h3_pass_s(find_device("rtx-5090"), H3_ROWS_1344X768) / 2 < measured_s


def test_listing_devices_imports_no_torch():
    code = "import sys; from autotune.hardware import list_devices; list_devices(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
