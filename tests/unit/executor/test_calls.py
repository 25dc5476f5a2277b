"""Calls that a stack does not expect: other orders, layers left out, visited twice or shared, other entry points."""

import pytest
import torch
from executor_builders import Block, Chain, emulated, inputs, open_session, pipeline_executable, seeded
from torch import nn

from runtime.errors import SessionError
from runtime.residency import Lifetime, Policy
from runtime.session import Session

ENGINES = ("sglang@0.5.23", "topup")


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def expected(module, orders):
    """What the plain module gives for each step."""
    found = []
    for step, order in enumerate(orders):
        module.order = order
        found.append(module(inputs(step)))
    return found


def run_in_session(module, orders, **plan):
    """The same in a session; returns outputs, misses, and how many actions each pass took to load layers blocking."""
    outputs = []
    with open_session(module, passes=len(orders), **plan) as session:
        for step, order in enumerate(orders):
            module.order = order
            outputs.append(module(inputs(step)))
        session.end_request()
        (request,) = session.report().requests
    return outputs, request.misses


def assert_equal(outputs, plain):
    for step, (one, other) in enumerate(zip(outputs, plain, strict=True)):
        assert torch.equal(one, other), step


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "orders",
    [
        [[2, 0, 3, 1]] * 4,
        [[0, 1, 2, 3]] * 2 + [[3, 2, 1, 0]] * 3,
        [[0, 1, 3]] * 3,
        [[0, 1, 2, 3], [0, 2], [1, 3], [0, 1, 2, 3]],
        [[0, 1, 0, 2, 3]] * 3,
        [[0, 1], [0, 1], [0, 1, 2, 3], [3]],
        [[1, 1, 2], [1, 1, 2], [0, 1, 2, 3]],
    ],
)
@pytest.mark.parametrize("knobs", [{}, {"prefetch": 2}, {"resident": 2, "policy": Policy.STRIDED, "prefetch": 3}])
def test_outputs_are_those_of_the_plain_module_in_any_order(engine, orders, knobs):
    module = seeded(Chain, 4)
    plain = expected(module, orders)
    outputs, _ = run_in_session(module, orders, engine=engine, **knobs)
    assert_equal(outputs, plain)


@pytest.mark.parametrize("engine", ENGINES)
def test_prefetch_follows_the_recorded_order_after_the_first_pass(engine):
    module = seeded(Chain, 4)
    _, once = run_in_session(module, [[2, 0, 3, 1]], engine=engine)
    _, often = run_in_session(module, [[2, 0, 3, 1]] * 5, engine=engine)
    assert once > 0
    assert often == once


@pytest.mark.parametrize("engine", ENGINES)
def test_a_changed_order_is_a_miss_and_no_error(engine):
    module = seeded(Chain, 4)
    orders = [[2, 0, 3, 1]] * 2 + [[0, 1, 2, 3]] * 3
    plain = expected(module, orders)
    outputs, misses = run_in_session(module, orders, engine=engine)
    _, before = run_in_session(module, orders[:2], engine=engine)
    assert_equal(outputs, plain)
    assert misses > before


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("order", [[2, 0, 3, 1, 5, 4], [5, 4, 3, 2, 1, 0], [0, 1, 0, 2, 3, 2, 4, 5]])
@pytest.mark.parametrize("knobs", [{}, {"prefetch": 3}, {"resident": 2}, {"resident": 3, "policy": Policy.STRIDED}])
def test_no_order_takes_more_memory_than_the_planned_one(engine, order, knobs):
    module = seeded(Chain, 6)
    planned = _peak_weight_bytes(module, list(range(6)), engine=engine, **knobs)
    assert _peak_weight_bytes(module, order, engine=engine, **knobs) <= planned


def _peak_weight_bytes(module, order, **plan):
    module.order = order
    with open_session(module, passes=3, **plan) as session:
        for _ in range(2):
            for step in range(3):
                module(inputs(step))
            session.end_request()
        return max(phase.peak_weight_bytes for phase in session.report().phases)


class WithAdapters(Chain):
    """Adapters that were registered after the blocks run among them."""

    def __init__(self, count):
        super().__init__(count)
        self.adapters = nn.ModuleList(nn.Linear(16, 16) for _ in range(count))

    def forward(self, x):
        for block, adapter in zip(self.blocks, self.adapters, strict=True):
            x = adapter(block(x))
        return x


@pytest.mark.parametrize("stacks", [("blocks",), ("blocks", "adapters")])
def test_adapters_run_among_the_blocks(stacks):
    module = seeded(WithAdapters, 4)
    plain = [module(inputs(step)) for step in range(3)]
    with open_session(module, stacks=stacks):
        outputs = [module(inputs(step)) for step in range(3)]
    assert_equal(outputs, plain)


def test_one_object_at_two_positions_is_one_layer_with_one_host_copy():
    module = seeded(Chain, 3)
    module.blocks[2] = module.blocks[0]
    plain = [module(inputs(step)) for step in range(4)]
    with open_session(module, passes=4) as session:
        outputs = [module(inputs(step)) for step in range(4)]
        host = session.report().host
    assert_equal(outputs, plain)
    layer_bytes = sum(weight.nbytes for weight in module.blocks[0].parameters())
    assert host.pinned_bytes <= 2 * (layer_bytes + 4 * 32)


class SmallVae(nn.Module):
    """Is called by ``decode``; the outer module is never called."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Linear(16, 16)
        self.decoder = Chain(3)
        self.pos_embed = nn.Linear(16, 16)

    def decode(self, x):
        return self.decoder(self.conv(x))


def test_decode_streams_as_forward_does():
    module = seeded(SmallVae)
    plain = [module.decode(inputs(step)) for step in range(3)]
    with open_session(module, stacks=("decoder.blocks",)) as session:
        outputs = [module.decode(inputs(step)) for step in range(3)]
        (request,) = session.report().requests
    assert_equal(outputs, plain)
    assert len(request.uses[0].passes) == 3
    assert request.misses == 0


def test_a_part_outside_the_stacks_can_be_called_directly():
    module = seeded(SmallVae)
    plain = module.pos_embed(inputs())
    with open_session(module, stacks=("decoder.blocks",)):
        assert torch.equal(module.pos_embed(inputs()), plain)


def test_one_layer_can_be_called_directly():
    module = seeded(Chain, 4)
    plain = module.blocks[2](inputs())
    with open_session(module) as session:
        assert torch.equal(module.blocks[2](inputs()), plain)
        assert torch.equal(module.blocks[2].forward(inputs()), plain)
        session.end_request()
        assert torch.equal(module(inputs(1)), expected(seeded(Chain, 4), [[0, 1, 2, 3]] * 2)[1])


def test_weights_report_where_they_lie_and_keep_their_shapes():
    module = seeded(Chain, 4)
    shapes = [weight.shape for weight in module.parameters()]
    with open_session(module) as session:
        assert next(module.parameters()).device == session.device.torch_device
        assert [weight.shape for weight in module.parameters()] == shapes


def test_state_can_be_read_while_attached():
    module = seeded(Chain, 4)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with open_session(module):
        module(inputs())
        after = module.state_dict()
        assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_inference_mode_works():
    module = seeded(Chain, 4)
    plain = module(inputs())
    with open_session(module), torch.inference_mode():
        for _ in range(4):
            assert torch.equal(module(inputs()), plain)


def test_a_session_opened_in_inference_mode_leaves_usable_modules():
    module = seeded(Chain, 4)
    plain = module(inputs())
    with torch.inference_mode(), open_session(module):
        assert torch.equal(module(inputs()), plain)
    assert torch.equal(module(inputs()), plain)
    module.blocks[0].up.weight.add_(0)


def test_gradients_are_refused_before_a_layer_runs():
    module = seeded(Chain, 4).requires_grad_(True)
    with (
        open_session(module),
        torch.enable_grad(),
        pytest.raises(SessionError, match=r"blocks\.0 is called with gradients on"),
    ):
        module(inputs())


class TiedHead(nn.Module):
    """The first layer's table is the head's weight, through a functional call: no hook of the layer fires then."""

    def __init__(self, registered):
        super().__init__()
        self.layers = nn.ModuleList([nn.Embedding(20, 16), Block(), Block(), Block()])
        if registered:
            self.head = nn.Linear(16, 20, bias=False)
            self.head.weight = self.layers[0].weight

    def forward(self, ids):
        x = self.layers[0](ids)
        for layer in list(self.layers)[1:]:
            x = layer(x)
        if hasattr(self, "head"):
            return self.head(x)
        return nn.functional.linear(x, self.layers[0].weight)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize(
    "knobs", [{}, {"prefetch": 3}, {"resident": 1}, {"resident": 2, "lifetime": Lifetime.PERMANENT}]
)
def test_a_table_that_is_also_the_head_has_one_owner(engine, registered, knobs):
    module = seeded(TiedHead, registered)
    ids = torch.arange(5)
    plain = module(ids)
    with open_session(module, stacks=("layers",), engine=engine, **knobs) as session:
        for _ in range(6):
            assert torch.equal(module(ids), plain)
        host = session.report().host
    table_bytes = module.layers[0].weight.nbytes
    if registered:  # tied weights stay on the device: no layer's host copy holds them
        assert host.pinned_bytes < sum(weight.nbytes for weight in module.parameters()) - table_bytes + 1000
    assert torch.equal(module(ids), plain)


class SelfCalling(nn.Module):
    """A layer that calls itself."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(16, 16)

    def forward(self, x, deep=True):
        return self.proj(self(x, deep=False)) if deep else x


def test_reentrant_use_is_refused_with_the_layers_name():
    module = seeded(Chain, 2)
    module.blocks[1] = SelfCalling()
    module.requires_grad_(False)
    with open_session(module), pytest.raises(SessionError, match=r"blocks\.1 is called while .*blocks\.1 runs"):
        module(inputs())


def test_a_second_attach_is_refused():
    module = seeded(Chain, 3)
    with open_session(module) as session:
        with pytest.raises(SessionError, match="attached already"):
            session.attach()
        with pytest.raises(SessionError, match=r"transformer is attached to a session already"):
            open_session(module)
    with open_session(module):
        module(inputs())


class Controlled(Chain):
    """Calls a layer of another component in the middle of its own call, as control networks do."""

    def __init__(self, count, other):
        super().__init__(count)
        self.__dict__["other"] = other

    def forward(self, x):
        x = self.blocks[0](x)
        x = self.other.blocks[1](x)
        return self.last(self.blocks[1](x))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_component_may_call_a_layer_of_another_one(engine):
    transformer = seeded(Chain, 4)
    parts = {"control": seeded(Controlled, 3, transformer), "transformer": transformer}
    plain = [(parts["control"](inputs(step)), transformer(inputs(step))) for step in range(3)]
    executable = pipeline_executable(parts, engine=engine, passes=3)
    with Session(parts, executable, device=emulated()) as session:
        for _ in range(2):
            with session.request():
                for step in range(3):
                    assert torch.equal(parts["control"](inputs(step)), plain[step][0])
                    assert torch.equal(transformer(inputs(step)), plain[step][1])
