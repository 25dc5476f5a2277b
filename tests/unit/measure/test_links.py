"""Links of emulated devices whose rates are known, and what cannot be measured."""

import os
from pathlib import Path

import pytest
from node_builders import KIB, MIB, RATES, MemoryKeeper, bench_on, is_empty, virtual_device

from autotune.measure.links import LinkFindings, choose_sizes, measure_links
from autotune.measure.timing import PROTOCOLS
from autotune.measurements.timing import Effort
from runtime.devices.emulated import ClockKind
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.devices.protocol import Label
from runtime.errors import InputError

LAYER = 200 * KIB + 512
MOST = 256 * KIB


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(os.urandom(MIB))
    return path


def rate_of(found: LinkFindings, kind: str, size_bytes: int = LAYER) -> float:
    (record,) = [each for each in found.records if (each.kind, each.size_bytes) == (kind, size_bytes)]
    return record.bytes_per_s


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> LinkFindings:
    path = tmp_path_factory.mktemp("disk") / "model.safetensors"
    path.write_bytes(os.urandom(MIB))
    return measure_links(bench_on(virtual_device(duplex_slowdown_ratio=0.3)), [LAYER], most_bytes=MOST, path=path)


@pytest.mark.parametrize(
    ("kind", "bytes_per_s"),
    [
        ("pinned_h2d", RATES.pinned_bytes_per_s),
        ("pageable_h2d", RATES.pageable_bytes_per_s),
        ("d2h", RATES.d2h_bytes_per_s),
        ("page_cache_read", RATES.pageable_bytes_per_s),
        ("disk_read", RATES.disk_bytes_per_s),
        ("duplex_h2d", RATES.pinned_bytes_per_s / 1.3),
        ("duplex_d2h", RATES.d2h_bytes_per_s / 1.3),
    ],
)
def test_every_link_of_known_rate_is_recovered(kind: str, bytes_per_s: float, recovered: LinkFindings) -> None:
    assert rate_of(recovered, kind) == pytest.approx(bytes_per_s, rel=0.02)
    assert not recovered.left_out


def test_measuring_links_leaves_nothing_behind(checkpoint: Path) -> None:
    device = virtual_device()
    measure_links(bench_on(device), [LAYER], most_bytes=MOST, path=checkpoint)
    assert is_empty(device)


def test_copies_of_every_size_are_measured_and_layers_are_told_from_the_sweep() -> None:
    found = measure_links(bench_on(virtual_device()), [LAYER, LAYER, MOST], most_bytes=MOST)
    sizes = {record.size_bytes: record.is_layer_size for record in found.records if record.kind == "pinned_h2d"}
    assert sizes == {64 * KIB: False, LAYER: True, MOST: True}
    assert len(found.records) == 5 * len(sizes)


def test_sizes_are_distinct_and_the_largest_comes_first() -> None:
    sizes = [size.size_bytes for size in choose_sizes([MIB, 5, 5, 300 * MIB], None)]
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[0] == 300 * MIB
    with pytest.raises(InputError, match="at least one byte"):
        choose_sizes([0], None)


def test_a_layer_larger_than_what_may_be_copied_is_left_out_with_the_reason() -> None:
    found = measure_links(bench_on(virtual_device()), [LAYER], most_bytes=64 * KIB)
    assert {record.size_bytes for record in found.records} == {64 * KIB}
    assert [reason for reason in found.left_out if "0.1958 MiB" in reason and "only" in reason]


def test_a_refused_pin_leaves_out_what_needs_it_and_nothing_else() -> None:
    def refuse_large(size_bytes: int) -> None:
        if size_bytes > 64 * KIB:
            raise RuntimeError("RLIMIT_MEMLOCK")

    device = virtual_device(pin_limit=refuse_large)
    found = measure_links(bench_on(device), [LAYER], most_bytes=MOST)
    assert {record.kind for record in found.records if record.size_bytes == LAYER} == {"pageable_h2d"}
    assert any("RLIMIT_MEMLOCK" in reason and "pinned_h2d of 0.1958 MiB" in reason for reason in found.left_out)
    assert rate_of(found, "pinned_h2d", 64 * KIB) == pytest.approx(RATES.pinned_bytes_per_s)
    assert is_empty(device)


def test_a_size_that_does_not_fit_the_device_is_left_out_once() -> None:
    device = virtual_device(capacity_bytes=128 * KIB)
    found = measure_links(bench_on(device), [LAYER], most_bytes=MOST)
    assert not [record for record in found.records if record.size_bytes > 128 * KIB]
    (reason,) = [reason for reason in found.left_out if f"{LAYER} bytes" in reason]
    assert "pinned_h2d of 0.1958 MiB" in reason
    assert "pageable_h2d of 0.1958 MiB" in reason
    assert is_empty(device)


def test_a_copy_that_fails_is_left_out_and_leaves_nothing_behind() -> None:
    def fail(label: Label) -> None:
        raise RuntimeError("uncorrectable ECC error")

    device = virtual_device(fail_copy=fail, delay_seed=3)
    found = measure_links(bench_on(device), [LAYER], most_bytes=MOST)
    assert not found.records
    assert all("uncorrectable ECC error" in reason for reason in found.left_out)
    assert is_empty(device)


def test_an_interrupt_leaves_nothing_behind() -> None:
    def interrupt(label: Label) -> None:
        raise KeyboardInterrupt

    device = virtual_device(fail_copy=interrupt)
    with pytest.raises(KeyboardInterrupt):
        measure_links(bench_on(device), [LAYER], most_bytes=MOST)
    assert is_empty(device)


@pytest.mark.parametrize(
    ("name", "why"), [("gone", "no file"), ("", "no file"), ("short", "fewer than"), ("empty", "empty")]
)
def test_reads_of_a_file_that_cannot_be_read_are_left_out(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x" * 100 * KIB)
    (tmp_path / "empty").touch()
    device = virtual_device()
    found = measure_links(bench_on(device), [LAYER], most_bytes=MOST, path=tmp_path / name)
    assert any(why in reason for reason in found.left_out)
    assert not [record for record in found.records if record.kind == "disk_read" and record.is_layer_size]
    assert is_empty(device)


def test_a_read_that_fails_is_left_out_and_leaves_nothing_behind(checkpoint: Path) -> None:
    def fail(label: Label) -> None:
        raise OSError("Input/output error")

    device = virtual_device(fail_read=fail)
    found = measure_links(bench_on(device), [LAYER], most_bytes=MOST, path=checkpoint)
    assert {record.kind for record in found.records if record.size_bytes == LAYER} >= {"pinned_h2d", "d2h"}
    assert any("disk_read of 0.1958 MiB" in reason and "Input/output error" in reason for reason in found.left_out)
    assert is_empty(device)


def test_a_disk_as_fast_as_the_page_cache_is_suspect(checkpoint: Path) -> None:
    rates = LinkRates(
        pinned_bytes_per_s=24e9,
        pageable_bytes_per_s=9e9,
        d2h_bytes_per_s=22e9,
        disk_bytes_per_s=2e9,
        page_cache=PageCache.ALL,
    )
    found = measure_links(bench_on(virtual_device(rates=rates)), [LAYER], most_bytes=MOST, path=checkpoint)
    notes = {record.kind: record.note for record in found.records if record.size_bytes == LAYER}
    assert "may have come from there" in notes["disk_read"]
    assert not notes["page_cache_read"]


def test_what_was_measured_before_is_recalled_and_not_measured_again(checkpoint: Path) -> None:
    keeper, device, asked = MemoryKeeper(), virtual_device(), list[str]()
    first = measure_links(bench_on(device, keeper), [LAYER], most_bytes=MOST, path=checkpoint)
    device.close()  # nothing can be measured on it any more
    again = measure_links(bench_on(device, keeper, notify=asked.append), [LAYER], most_bytes=MOST, path=checkpoint)
    assert again == first
    assert not asked


def test_a_recalled_size_is_a_layers_size_if_this_model_has_such_layers() -> None:
    keeper = MemoryKeeper()
    measure_links(bench_on(virtual_device(), keeper), [], most_bytes=64 * KIB)
    found = measure_links(bench_on(virtual_device(), keeper), [64 * KIB], most_bytes=64 * KIB)
    assert {record.is_layer_size for record in found.records if record.size_bytes == 64 * KIB} == {True}


def test_small_copies_are_measured_without_fixed_costs_of_the_bench(checkpoint: Path) -> None:
    found = measure_links(
        bench_on(virtual_device(duplex_slowdown_ratio=1.0), protocol=PROTOCOLS[Effort.DEFAULT]), [], most_bytes=64 * KIB
    )
    assert rate_of(found, "pinned_h2d", 64 * KIB) == pytest.approx(RATES.pinned_bytes_per_s, rel=1e-6)
    assert rate_of(found, "duplex_h2d", 64 * KIB) == pytest.approx(RATES.pinned_bytes_per_s / 2, rel=0.02)


def test_real_copies_on_this_machine_give_a_record_of_every_kind(checkpoint: Path) -> None:
    rates = LinkRates(
        pinned_bytes_per_s=4e9,
        pageable_bytes_per_s=2e9,
        d2h_bytes_per_s=4e9,
        disk_bytes_per_s=1e9,
        page_cache=PageCache.STREAM,
    )
    device = virtual_device(clock=ClockKind.REAL, rates=rates)
    found = measure_links(bench_on(device), [LAYER], most_bytes=MOST, path=checkpoint)
    assert all(record.timing.median_s > 0 for record in found.records)
    assert is_empty(device)
    device.close()


@pytest.mark.parametrize("size_bytes", [MIB, 1], ids=["read", "left out"])
def test_a_file_whose_name_is_no_text_is_kept_and_told_with_escapes(size_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    path.write_bytes(b"x" * size_bytes)
    keeper = MemoryKeeper()
    found = measure_links(bench_on(virtual_device(), keeper), [LAYER], most_bytes=MOST, path=path)
    texts = [*found.left_out, *(key for _, key in keeper.records)]
    assert any("caf\\udce9" in text for text in texts)
    assert all(text.encode() for text in texts)
