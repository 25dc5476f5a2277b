"""When timing stops, what it counts, and what its interval means."""

import itertools

import pytest

from autotune.measure.timing import PROTOCOLS, TimingProtocol, time_on_device, time_repeatedly
from autotune.measurements.timing import Effort, Timing, summarize_samples
from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.devices.link_rates import LinkRates
from runtime.devices.protocol import Label
from runtime.errors import InputError

RATES = LinkRates(
    pinned_bytes_per_s=1e9, pageable_bytes_per_s=1e9, d2h_bytes_per_s=1e9, disk_bytes_per_s=1e9, page_cache="all"
)


def protocol(**changes):
    settled = {"warmups": 2, "least_count": 3, "most_count": 8, "spread_ratio": 0.02, "limit_s": 100.0}
    return TimingProtocol(**{**settled, **changes})


def play(seconds, calls=None):
    """A run that takes the next of ``seconds`` each time."""
    waiting = iter(seconds)

    def run(times):
        if calls is not None:
            calls.append(times)
        return next(waiting) * times

    return run


def test_warm_up_runs_do_not_count():
    timing = time_repeatedly(play([9.0, 7.0, 1.0, 1.0, 1.0]), protocol())
    assert (timing.median_s, timing.high_s, timing.count) == (1.0, 1.0, 3)


def test_a_steady_run_is_timed_no_more_than_needed_and_a_noisy_one_to_the_limit():
    steady = time_repeatedly(play(itertools.repeat(1.0)), protocol())
    noisy = time_repeatedly(play(itertools.cycle([1.0, 2.0])), protocol())
    assert (steady.count, steady.is_settled) == (3, True)
    assert (noisy.count, noisy.is_settled) == (8, False)


def test_no_sample_begins_after_the_time_that_is_allowed_but_the_least_are_made():
    instants = iter(range(100))
    timing = time_repeatedly(
        play(itertools.cycle([1.0, 2.0])), protocol(limit_s=0.5), clock=lambda: float(next(instants))
    )
    assert timing.count == 3


def test_short_work_is_run_several_times_between_two_marks():
    calls = []
    timing = time_repeatedly(play(itertools.repeat(0.001), calls), protocol(least_span_s=0.004))
    assert calls == [1, 1, 4, 4, 4]
    assert timing.median_s == pytest.approx(0.001)


def test_work_that_takes_no_time_is_run_once():
    calls = []
    assert time_repeatedly(play(itertools.repeat(0.0), calls), protocol()).median_s == 0
    assert set(calls) == {1}


@pytest.mark.parametrize("change", [{"warmups": -1}, {"least_count": 0}, {"most_count": 2}])
def test_a_protocol_that_measures_nothing_is_refused(change):
    with pytest.raises(InputError, match="are no protocol"):
        protocol(**change)


def test_more_effort_makes_more_samples_and_narrower_intervals():
    ordered = [PROTOCOLS[effort] for effort in sorted(Effort, key=lambda effort: effort.rank)]
    for less, more in itertools.pairwise(ordered):
        assert (less.least_count, less.limit_s) < (more.least_count, more.limit_s)
        assert less.spread_ratio > more.spread_ratio


def test_the_device_decides_how_long_a_label_lasts():
    device = EmulatedDevice(rates=RATES, clock=ClockKind.VIRTUAL, compute_s=lambda label: 0.25 * (label.layer or 0))
    calls = []
    timing = time_on_device(device, Label("transformer", "blocks", 2), lambda: calls.append(1), PROTOCOLS[Effort.QUICK])
    assert timing.median_s == pytest.approx(0.5)
    assert len(calls) == timing.count + PROTOCOLS[Effort.QUICK].warmups


# The sign test: leaving out so many at either end, the rest encloses the median with at least 99 % (from 8 on).
@pytest.mark.parametrize(("count", "below"), [(1, 0), (7, 0), (8, 0), (10, 0), (12, 1), (20, 3), (100, 36)])
def test_the_interval_is_that_of_the_sign_test(count, below):
    timing = summarize_samples([float(sample) for sample in range(count)], is_settled=True)
    assert (timing.low_s, timing.high_s) == (below, count - 1 - below)


def test_order_of_samples_does_not_matter():
    assert summarize_samples([3.0, 1.0, 2.0], is_settled=True).median_s == 2.0


def test_a_timing_out_of_order_or_without_samples_is_refused():
    with pytest.raises(InputError, match="in order"):
        Timing(median_s=1.0, low_s=2.0, high_s=3.0, count=1, is_settled=True)
    with pytest.raises(InputError, match="not negative"):
        Timing(median_s=1.0, low_s=-1.0, high_s=3.0, count=1, is_settled=True)
    with pytest.raises(InputError, match="at least one sample"):
        summarize_samples([], is_settled=True)
