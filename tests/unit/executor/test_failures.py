"""What fails half-way: one clear error, memory returned, modules as they were, the session usable again."""

import contextlib

import pytest
import torch
from executor_builders import (
    Block,
    Chain,
    assert_as_found,
    emulated,
    executable_for,
    inputs,
    open_session,
    seeded,
    snapshot,
)
from torch import nn

from runtime.devices.emulated import ClockKind
from runtime.devices.protocol import Label, MemoryKind
from runtime.errors import DeviceError, DeviceMemoryError, SessionError
from runtime.residency import Lifetime, Mode, Policy, streamed_layers
from runtime.session import Session

CLOCKS = tuple(ClockKind)
PLANS = [
    {},
    {"engine": "topup", "prefetch": 2},
    {"resident": 2},
    {"resident": 3, "policy": Policy.STRIDED, "lifetime": Lifetime.PERMANENT},
    {"mode": Mode.COMPONENT_OFFLOAD},
    {"mode": Mode.RESIDENT},
]


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def weights_on(device):
    return device.memory().live_bytes[MemoryKind.WEIGHTS]


class FailingBlock(Block):
    """Raises in the middle of its call, if it is told to."""

    error = None

    def forward(self, x):
        x = self.up(x)
        if FailingBlock.error is not None and self.index == FailingBlock.index:
            raise FailingBlock.error
        return self.down(torch.tanh(x))

    @classmethod
    @contextlib.contextmanager
    def fail(cls, index, error):
        cls.index, cls.error = index, error
        try:
            yield
        finally:
            cls.error = None


class Failing(Chain):
    def __init__(self, count):
        super().__init__(count)
        self.blocks = nn.ModuleList(FailingBlock() for _ in range(count))
        for index, block in enumerate(self.blocks):
            block.index = index


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("error", [RuntimeError("broken kernel"), KeyboardInterrupt(), torch.OutOfMemoryError("full")])
def test_the_session_is_usable_after_a_layer_failed(clock, plan, error):
    module = seeded(Failing, 7)
    plain = [module(inputs(step)) for step in range(3)]
    before = snapshot(module)
    device = emulated(clock=clock, delay_seed=None)
    session = open_session(module, device=device, **plan)
    with session:
        for step in range(3):
            assert torch.equal(module(inputs(step)), plain[step])
        idle_bytes = weights_on(device)
        module(inputs(0))
        expected = DeviceMemoryError if isinstance(error, torch.OutOfMemoryError) else type(error)
        with FailingBlock.fail(5, error), pytest.raises(expected):
            module(inputs(1))
        assert weights_on(device) <= idle_bytes
        for _ in range(2):
            for step in range(3):
                assert torch.equal(module(inputs(step)), plain[step])
        assert weights_on(device) == idle_bytes
    assert_as_found(module, before)
    assert all(size == 0 for size in device.memory().live_bytes.values())


@pytest.mark.parametrize("clock", CLOCKS)
def test_an_interrupt_that_ends_the_session_leaves_everything_as_found(clock):
    module = seeded(Failing, 7)
    before = snapshot(module)
    device = emulated(clock=clock)
    with (
        FailingBlock.fail(3, KeyboardInterrupt()),
        pytest.raises(KeyboardInterrupt),
        open_session(module, device=device),
    ):
        module(inputs())
    assert_as_found(module, before)
    assert all(size == 0 for size in device.memory().live_bytes.values())
    device.close()


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("plan", PLANS[:4])
def test_a_failed_copy_is_one_error_that_names_the_layer(clock, plan):
    module = seeded(Chain, 6)
    plain = module(inputs())
    before = snapshot(module)
    broken = {"now": False}
    streamed = streamed_layers(6, plan.get("resident", 0), plan.get("policy", Policy.LEADING))[-1]

    def fail_copy(label):
        if broken["now"] and label == Label("transformer", "blocks", streamed):
            raise OSError("the link is down")

    device = emulated(clock=clock, fail_copy=fail_copy)
    with open_session(module, device=device, **plan) as session:
        assert torch.equal(module(inputs()), plain)
        session.end_request()
        broken["now"] = True
        with pytest.raises(DeviceError, match=rf"transformer\.blocks\.{streamed}.*the link is down"):
            module(inputs())
        broken["now"] = False
        assert torch.equal(module(inputs()), plain)
    assert_as_found(module, before)
    assert all(size == 0 for size in device.memory().live_bytes.values())


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_that_does_not_fit_leaves_the_modules_alone(plan):
    module = seeded(Chain, 6)
    before = snapshot(module)
    device = emulated(capacity_bytes=2000)
    session = open_session(module, device=device, **plan)
    with pytest.raises(DeviceMemoryError, match=r"there are 2,?000"):
        session.attach() if plan.get("mode") is not Mode.COMPONENT_OFFLOAD else _attach_and_call(session, module)
    session.detach()
    assert_as_found(module, before)
    assert all(size == 0 for size in device.memory().live_bytes.values())


def _attach_and_call(session, module):
    session.attach()
    module(inputs())


def test_activations_that_do_not_fit_are_one_error_and_the_session_goes_on():
    module = seeded(Chain, 4)
    plain = module(inputs())
    probe = emulated(tracks_activations=True)
    with open_session(module, device=probe) as session:
        module(inputs())
        session.end_request()
        peak_bytes = max(phase.peak_total_bytes for phase in session.report().phases)
    device = emulated(capacity_bytes=peak_bytes + 5000, tracks_activations=True)
    with open_session(module, device=device):
        with pytest.raises(DeviceMemoryError):
            module(inputs(batch=10_000))
        assert torch.equal(module(inputs()), plain)


def test_two_threads_are_refused():
    import threading  # noqa: PLC0415

    module = seeded(Chain, 3)
    found = []

    class Calling(Chain):
        def forward(self, x):
            def other():
                try:
                    with torch.no_grad():
                        module.blocks[0](x)
                except SessionError as error:
                    found.append(str(error))

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            return super().forward(x)

    module = seeded(Calling, 3)
    with open_session(module):
        module(inputs())
    assert len(found) == 1
    assert "two threads" in found[0]


def test_a_plan_for_another_model_is_refused_by_name_before_anything_moves():
    module, other = seeded(Chain, 6), seeded(Chain, 6, 20)
    before = snapshot(other)
    device = emulated()
    session = Session({"transformer": other}, executable_for(module), device=device)
    with pytest.raises(
        SessionError, match=r"transformer\.blocks\.0 has [\d,]+ bytes of weights, the plan was made for"
    ):
        session.attach()
    assert_as_found(other, before)
    assert weights_on(device) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda module: module.blocks.append(module.blocks[0].__class__()), r"has 7 layers, the plan was made for 6"),
        (lambda module: module.blocks[3].half(), r"transformer\.blocks\.3 has"),
        (lambda module: setattr(module, "last", None), r"bytes of weights outside its stacks"),
        (lambda module: delattr(module, "blocks"), r"has no list like the plan's 'blocks' of 6 layers"),
        (lambda module: setattr(module, "blocks", torch.nn.ModuleList()), r"no list like|empty list of layers"),
    ],
)
def test_a_changed_module_is_refused_by_name(change, message):
    module = seeded(Chain, 6)
    executable = executable_for(module)
    change(module)
    session = Session({"transformer": module}, executable, device=emulated())
    with pytest.raises(SessionError, match=message):
        session.attach()


def test_placeholders_of_another_runtime_are_refused():
    module = seeded(Chain, 3)
    executable = executable_for(module)
    for weight in module.blocks[1].parameters():
        weight.data = torch.empty(1)
    with pytest.raises(SessionError, match="placeholder of another runtime"):
        Session({"transformer": module}, executable, device=emulated()).attach()


def test_weights_without_data_are_refused():
    module = seeded(Chain, 3)
    executable = executable_for(module)
    module.to("meta")
    with pytest.raises(SessionError, match="has no data"):
        Session({"transformer": module}, executable, device=emulated()).attach()


def test_modules_with_foreign_hooks_are_refused():
    from diffusers.hooks import apply_group_offloading  # noqa: PLC0415

    module = seeded(Chain, 3)
    executable = executable_for(module)
    apply_group_offloading(
        module, onload_device=torch.device("cpu"), offload_device=torch.device("cpu"), offload_type="leaf_level"
    )
    with pytest.raises(SessionError, match="already managed by another library"):
        Session({"transformer": module}, executable, device=emulated()).attach()


def test_nothing_to_attach_is_an_error_and_never_a_quiet_success():
    executable = executable_for(seeded(Chain, 3))
    with pytest.raises(SessionError, match="none of the plan's components"):
        Session({"other": seeded(Chain, 3)}, executable, device=emulated()).attach()


def test_a_session_that_is_not_attached_says_so():
    session = open_session(seeded(Chain, 3))
    for call in (lambda: session.run("transformer", inputs()), session.report, lambda: session.device):
        with pytest.raises(SessionError, match="not attached"):
            call()
