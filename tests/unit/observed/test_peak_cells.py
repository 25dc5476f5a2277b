import pytest

from autotune.observed.observation import PeakKind
from autotune.observed.peak_cells import read_peak
from autotune.observed.refusal import RowRefusedError
from runtime.units import GIB, MIB


def _read(value, unit, *, is_sglang=True, **options):
    return read_peak(value, unit, is_sglang=is_sglang, **options)


@pytest.mark.parametrize(
    ("value", "unit", "size_bytes", "kind"),
    [
        ("5.43", "GB (as in table; meaning allocated/reserved not stated)", 5.43 * GIB, PeakKind.UNSTATED),
        ("108076", "MB peak_reserved", 108076 * MIB, PeakKind.RESERVED),
        ("45.85", 'GB "Peak GPU memory" log', 45.85 * GIB, PeakKind.RESERVED),
        ("23,376", "MiB reported peak (server)", 23376 * MIB, PeakKind.RESERVED),
        ("26.3", "GiB sampled peak per GPU", 26.3 * GIB, PeakKind.DRIVER),
        ("100.3", "GiB max per GPU, nvidia-smi 2 s sampling", 100.3 * GIB, PeakKind.DRIVER),
        ("31.86", "GB whole-GPU (nvidia-smi)", 31.86e9, PeakKind.DRIVER),
        ("11.86", "GiB allocated of 12.00 GiB allowed at OOM", 11.86 * GIB, PeakKind.ALLOCATED),
        ("71504.0 reserved / 10681.71 allocated", "MB", 71504 * MIB, PeakKind.RESERVED),
        ("17.34 / 17.85", "GB allocated / reserved", 17.85 * GIB, PeakKind.RESERVED),
        ("19.3 steady / 19.1 at load", "GiB", 19.3 * GIB, PeakKind.UNSTATED),
        ("12.4-12.6 (12,583-12,685 MiB)", "GiB live nvidia-smi", 12.5 * GIB, PeakKind.DRIVER),
        ("24.5 GiB", "", 24.5 * GIB, PeakKind.UNSTATED),
        ("24.5", "G", 24.5 * GIB, PeakKind.UNSTATED),
    ],
)
def test_peak_is_read_with_who_counted_it(value, unit, size_bytes, kind):
    peak = _read(value, unit).peak
    assert peak.size_bytes == pytest.approx(size_bytes, abs=2)
    assert peak.kind is kind


def test_gigabytes_of_the_server_are_binary_and_said_to_be():
    stated = _read("24.47", "GB peak reserved")
    assert stated.peak.size_bytes == pytest.approx(24.47 * GIB, abs=2)
    assert any("powers of 1024" in text for text in stated.assumed)


def test_gigabytes_of_others_are_decimal_as_written():
    stated = _read("14.9", "GB peak reserved", is_sglang=False)
    assert stated.peak.size_bytes == pytest.approx(14.9e9, abs=2)
    assert any("power of 1000" in text for text in stated.assumed)


def test_thirty_resident_layers_of_qwen_image_agree_with_binary_gigabytes():
    more_bytes = _read("24.47", "GB").peak.size_bytes - _read("5.43", "GB").peak.size_bytes
    assert more_bytes == pytest.approx(30 * 648.2 * MIB, rel=0.005)


def test_working_memory_is_what_was_allocated():
    peak = _read("8.188 reserved / 6.693 allocated", "GiB", is_sglang=False, activations_of="vae").peak
    assert peak.size_bytes == pytest.approx(6.693 * GIB, abs=2)
    assert (peak.kind, peak.component) == (PeakKind.ACTIVATIONS, "vae")


@pytest.mark.parametrize(
    ("value", "unit"), [("<=12", "GiB cap"), ("<= cap", "GiB hard cap"), ("12", "GiB cap"), ("", "")]
)
def test_cap_is_no_peak(value, unit):
    stated = _read(value, unit)
    assert stated.peak is None
    assert not stated.dropped


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        ("~3.1", "GiB per GPU after load"),
        ("9340", "delta MB peak"),
        ("~93.5", "GB needed free"),
        ("47.37 total / 99.62 MiB free", "GiB at OOM"),
        ("47.6/7.4/47.3/0.7", "G per GPU"),
    ],
)
def test_figure_that_is_no_peak_of_a_run_is_named_and_dropped(value, unit):
    stated = _read(value, unit)
    assert stated.peak is None
    assert value in stated.dropped


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        ("24.5", "", "begin it with the unit"),
        ("10.53", "GiB/s", "begin it with the unit"),
        ("24.5 GiB", "MiB", "two units"),
        ("24", "Gb", "bits"),
        ("24 Gb", "", "bits"),
        ("nan", "GiB", "not one number"),
        ("0", "GiB", "above 0"),
        ("9000000000000", "GiB", "EiB"),
    ],
)
def test_peak_that_is_damaged_is_refused(value, unit, message):
    with pytest.raises(RowRefusedError, match=message):
        _read(value, unit)


def test_sampled_peak_says_that_it_may_be_too_low():
    assert "sampled" in _read("26.3", "GiB sampled peak").caveats[0]
    assert not _read("26.3", "GiB peak reserved").caveats
