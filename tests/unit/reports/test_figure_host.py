"""The picture of host memory: hosts in order, misfits marked, and what it says about the run's own host."""

from dataclasses import replace

import pytest
from figure_checks import find_label_faults
from run_data_builders import build_run_data

from reports.figures.host import draw_host, host_series
from reports.run_data import HostPoint
from runtime.units import GIB


def _hosts(*rows, own=64):
    return tuple(
        HostPoint(
            host_bytes=size * GIB,
            latency_s=time_s,
            charged_bytes=None if time_s is None else GIB,
            disk_read_bytes=disk,
            is_own=size == own,
        )
        for size, time_s, disk in rows
    )


def test_the_series_are_the_runs_own_values_the_smallest_host_first():
    data = build_run_data()
    shuffled = replace(data, host_curve=data.host_curve[::-1])
    assert host_series(shuffled).points == data.host_curve
    assert host_series(data).fitting == data.host_curve[1:]


def test_hosts_are_drawn_at_their_size_and_those_without_a_plan_as_crosses_on_the_axis():
    axes = draw_host(build_run_data()).axes[0]
    lines = {str(line.get_label()): line for line in axes.lines}
    assert list(lines["no plan fits on this host"].get_xdata()) == [16.0]
    assert list(lines["best plan, reads from disk"].get_xdata()) == [32.0]
    assert list(lines["best plan"].get_ydata()) == [0.1, 0.09]
    assert "this run's host: 64 GiB" in lines
    assert axes.get_xlabel() == "host memory (GiB, logarithmic)"
    assert axes.get_ylabel().endswith("(s)")


@pytest.mark.parametrize(
    ("hosts", "finding"),
    [
        (_hosts((32, 9.0, GIB), (64, 5.0, 0), (128, 4.99, 0)), "64 GiB of host memory is enough"),
        (_hosts((32, 9.0, GIB), (64, 5.0, 0), (128, 4.0, 0)), "More host memory pays: 128 GiB would save 1.00 s"),
        (_hosts((64, None, 0), (128, 4.0, 0)), "No plan fits on this host; 128 GiB would do: 4.00 s"),
        (_hosts((32, None, 0), (64, None, 0)), "No plan fits on a host with 64 GiB or less"),
    ],
)
def test_the_title_states_the_finding(hosts, finding):
    data = build_run_data(host_curve=hosts)
    assert host_series(data).finding.startswith(finding)
    assert not find_label_faults(draw_host(data))


def test_labels_of_many_close_hosts_stay_apart():
    sizes = (8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256, 512, 1024)
    hosts = _hosts(*((size, 4000.0 / size, 0) for size in sizes))
    assert not find_label_faults(draw_host(build_run_data(host_curve=hosts)))


def test_a_run_for_one_host_has_no_such_picture():
    assert draw_host(build_run_data(host_curve=())) is None
    assert host_series(build_run_data(host_curve=())) is None
