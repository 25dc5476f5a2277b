"""Ctrl-C at any instant: modules as they were found, no device memory left, no pins."""

import signal
import threading

import pytest
import torch
from executor_builders import Chain, assert_as_found, inputs, open_session, seeded, snapshot
from toy_modules import UNPACED

from runtime.devices.emulated import ClockKind, EmulatedDevice
from runtime.interrupts import InterruptShield
from runtime.residency import Lifetime, Mode

PLANS = [
    {},
    {"engine": "topup", "prefetch": 2},
    {"resident": 3, "lifetime": Lifetime.PERMANENT},
    {"mode": Mode.COMPONENT_OFFLOAD},
    {"mode": Mode.RESIDENT},
]

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread()
    or signal.getsignal(signal.SIGINT) is not signal.default_int_handler,
    reason="interrupts reach only the main thread of a program that has not changed what they do",
)


class Interrupting(EmulatedDevice):
    """Is interrupted in the call number ``at``, as by Ctrl-C at that instant."""

    calls = at = 0

    def _enter(self):
        self.calls += 1
        if self.calls == self.at:
            signal.raise_signal(signal.SIGINT)
        super()._enter()


def run(module, device, plan):
    with torch.no_grad(), open_session(module, device=device, **plan) as session:
        for step in range(6):
            module(inputs(step))
        session.end_request()


@pytest.mark.parametrize("plan", PLANS)
def test_an_interrupt_at_any_device_call_leaves_everything_as_found(plan):
    module = seeded(Chain, 5)
    before = snapshot(module)
    undisturbed = Interrupting(rates=UNPACED, clock=ClockKind.VIRTUAL)
    run(module, undisturbed, plan)
    for at in range(1, undisturbed.calls + 1, max(1, undisturbed.calls // 60)):
        device = Interrupting(rates=UNPACED, clock=ClockKind.VIRTUAL, poison=True)
        device.at = at
        with pytest.raises(KeyboardInterrupt):
            run(module, device, plan)
        assert_as_found(module, before)
        assert all(size == 0 for size in device.memory().live_bytes.values()), at
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        run(module, device, plan)


def test_an_interrupt_waits_while_it_is_held_and_comes_with_the_last_release():
    shield = InterruptShield()
    shield.install()
    try:
        shield.hold()
        shield.hold()
        signal.raise_signal(signal.SIGINT)
        shield.let_go()
        with pytest.raises(KeyboardInterrupt):
            shield.let_go()
    finally:
        shield.remove()


def test_a_second_interrupt_does_not_wait():
    shield = InterruptShield()
    shield.install()
    try:
        with shield.held():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        shield.remove()


def test_the_handler_of_somebody_else_is_left_alone():
    shield = InterruptShield()
    shield.install()
    seen = []
    own = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    shield.remove()
    try:
        signal.raise_signal(signal.SIGINT)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert own is not signal.default_int_handler
