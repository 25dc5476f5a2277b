"""Weights of odd kinds survive the trip: strides, dtypes, empty ones, subclasses, buffers, files."""

import pytest
import torch
from executor_builders import SGLANG, Block, assert_as_found, emulated, executable_for, open_session, seeded, snapshot
from safetensors.torch import save_file
from torch import nn

from runtime import host_store
from runtime.devices.protocol import MemoryKind
from runtime.host_store import PinLedger
from runtime.hosting import HostMemory, HostTier
from runtime.layer_image import PAGE_BYTES, LayerImage, allocate_host
from runtime.weights import list_weights


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


class Odd(nn.Module):
    """A transposed matrix, a scale, an odd number of bytes before a half matrix, nothing at all, and fp8."""

    def __init__(self):
        super().__init__()
        self.turned = nn.Parameter(torch.randn(6, 16).t(), requires_grad=False)
        self.scale = nn.Parameter(torch.tensor(0.5), requires_grad=False)
        self.small = nn.Parameter(torch.arange(7, dtype=torch.int8), requires_grad=False)
        self.smaller = nn.Parameter(torch.arange(3, dtype=torch.int8), requires_grad=False)
        self.matrix = nn.Parameter(torch.randn(16, 16).to(torch.bfloat16), requires_grad=False)
        self.more = nn.Parameter(torch.randn(3, dtype=torch.float32).to(torch.bfloat16), requires_grad=False)
        self.nothing = nn.Parameter(torch.empty(0, 4), requires_grad=False)
        self.tiny = nn.Parameter(torch.randn(5).to(torch.float8_e4m3fn), requires_grad=False)
        self.spread = nn.Parameter(torch.randn(1, 16).expand(4, 16), requires_grad=False)
        self.register_buffer("table", torch.randn(16))
        self.seen = []

    def forward(self, x):
        named = dict(self.named_parameters())
        self.seen.append({name: (value.clone(), value.stride(), value.data_ptr()) for name, value in named.items()})
        x = x + (x @ self.turned) @ self.turned.t() * self.scale + self.table
        x = x + self.small.float().sum() + self.smaller.float().sum() + (x.to(torch.bfloat16) @ self.matrix).float()
        return torch.tanh(x + self.tiny.float().sum() + self.spread.sum(0) + self.more.float().sum())


class Odds(nn.Module):
    def __init__(self, count=4):
        super().__init__()
        self.blocks = nn.ModuleList(Odd() for _ in range(count))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize("engine", [SGLANG, "topup"])
@pytest.mark.parametrize("available_bytes", [2**40, 10])
@pytest.mark.parametrize("pins", [True, False])
def test_strides_dtypes_values_and_alignment_survive(engine, available_bytes, pins):
    module = seeded(Odds)
    x = torch.randn(2, 16)
    plain = module(x)
    expected = [dict(block.seen.pop()) for block in module.blocks]
    before = snapshot(module)
    device = emulated()
    host = HostMemory(available_bytes=available_bytes, pins=pins)
    with open_session(module, device=device, engine=engine, host=host):
        for _ in range(3):
            assert torch.equal(module(x), plain)
        for block, known in zip(module.blocks, expected, strict=True):
            for seen in block.seen:
                for name, (value, stride, address) in seen.items():
                    assert value.dtype == known[name][0].dtype
                    assert stride == known[name][1], name
                    assert torch.equal(value.float(), known[name][0].float()), name
                    assert address % 32 == 0, name
            block.seen.clear()
    assert_as_found(module, before)


def test_planned_bytes_include_the_padding():
    image = LayerImage(list_weights(Odd().named_parameters()))
    device = emulated()
    buffers = image.make_buffers(device.allocate)
    assert device.memory().live_bytes[MemoryKind.WEIGHTS] == image.size_bytes
    assert image.size_bytes > sum(weight.size_bytes for weight in image.weights)
    assert sum(buffer.nbytes for buffer in buffers) == image.size_bytes


class Quantised(torch.Tensor):
    """A matrix kept as int8 codes and a scale, as quantised weights are: a tensor subclass with two inner tensors."""

    @staticmethod
    def __new__(cls, codes, scale):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype, device=codes.device)

    def __init__(self, codes, scale):
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self):
        return ["codes", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, _context, _size, _stride):
        return Quantised(inner["codes"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, _types, args=(), kwargs=None):
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return Quantised(args[0].codes, args[0].scale)
        plain = [arg.codes * arg.scale if isinstance(arg, Quantised) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


class WithQuantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        for block in self.blocks:
            codes = torch.randint(-127, 127, (24, 16), dtype=torch.int8)
            block.up.weight = nn.Parameter(Quantised(codes, torch.tensor(0.01)), requires_grad=False)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def test_a_tensor_subclass_moves_by_its_inner_tensors():
    module = seeded(WithQuantised)
    x = torch.randn(2, 16)
    plain = module(x)
    inner = [(block.up.weight.codes.clone(), block.up.weight.scale.clone()) for block in module.blocks]
    parameters = [block.up.weight for block in module.blocks]
    with open_session(module) as session:
        for _ in range(3):
            assert torch.equal(module(x), plain)
        assert session.report().host.pinned_bytes < 4 * (24 * 16 + 24 * 16 * 4 + 41 * 4 + 128)
    for block, (codes, scale), parameter in zip(module.blocks, inner, parameters, strict=True):
        assert block.up.weight is parameter
        assert torch.equal(block.up.weight.codes, codes)
        assert torch.equal(block.up.weight.scale, scale)
    assert torch.equal(module(x), plain)


def test_distributed_tensors_move_by_their_local_part(tmp_path):
    import torch.distributed as dist  # noqa: PLC0415
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.distributed.tensor import Replicate, distribute_tensor  # noqa: PLC0415

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))

        class Local(nn.Module):
            def __init__(self):
                super().__init__()
                weight = distribute_tensor(torch.randn(16, 16), mesh, [Replicate()])
                self.weight = nn.Parameter(weight, requires_grad=False)

            def forward(self, x):
                return torch.tanh(x @ self.weight.to_local())

        class Chain(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList(Local() for _ in range(4))

            def forward(self, x):
                for block in self.blocks:
                    x = block(x)
                return x

        module = seeded(Chain)
        x = torch.randn(2, 16)
        plain = module(x)
        with open_session(module, prefetch=2):
            for _ in range(3):
                assert torch.equal(module(x), plain)
        assert torch.equal(module(x), plain)
    finally:
        dist.destroy_process_group()


class Counting(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        for block in self.blocks:
            x = block(x)
        return x


def test_what_modules_write_into_their_buffers_is_kept():
    module = seeded(Counting)
    with open_session(module) as session:
        module(torch.ones(1, 16))
        module(torch.ones(1, 16))
        assert session.device.memory().live_bytes[MemoryKind.BUFFERS] == 8
    module(torch.ones(1, 16))
    assert module.calls.item() == 3


def test_layers_without_weights_are_kept_for_indexing_and_never_copied():
    module = seeded(nn.Module)
    module.blocks = nn.ModuleList([Block(), nn.Identity(), Block(), nn.Identity()])
    module.requires_grad_(False)

    def run(x):
        for block in module.blocks:
            x = block(x)
        return x

    x = torch.randn(2, 16)
    plain = run(x)
    with open_session(module, prefetch=2) as session:
        for _ in range(4):
            assert torch.equal(run(x), plain)
        session.end_request()
        copies = [
            copy for request in session.report().requests for copy in request.timeline.spans if copy.lane == "h2d"
        ]
    assert copies
    assert {copy.layer for copy in copies} == {0, 2}


def test_mapped_layers_stay_views_of_their_file(tmp_path):
    from safetensors import safe_open  # noqa: PLC0415

    module = seeded(Odds)
    x = torch.randn(2, 16)
    plain = module(x)
    names = [name for name, _ in module.named_parameters() if "nothing" not in name]
    save_file(
        {name: module.get_parameter(name).contiguous().clone() for name in names}, tmp_path / "weights.safetensors"
    )
    with safe_open(tmp_path / "weights.safetensors", framework="pt") as file:
        for name in names:
            module.get_parameter(name).data = file.get_tensor(name)
    addresses = [module.get_parameter(name).data_ptr() for name in names]
    with open_session(module, host=HostMemory(available_bytes=10, pins=False)) as session:
        for _ in range(3):
            assert torch.equal(module(x), plain)
        host = session.report().host
    assert host.pinned_bytes == host.pageable_bytes == 0
    assert host.mapped_bytes > 0
    assert [module.get_parameter(name).data_ptr() for name in names] == addresses


def test_host_buffers_begin_at_a_page():
    for numel in (1, 5, 4096, 10_001):
        assert allocate_host(numel, torch.int8).data_ptr() % PAGE_BYTES == 0
        assert allocate_host(numel, torch.bfloat16).numel() == numel


class Limits:
    """A pin function that refuses as real systems do."""

    def __init__(self, rule):
        self.rule, self.calls, self.total = rule, 0, 0

    def __call__(self, size_bytes):
        self.calls += 1
        if self.rule(self.calls, self.total + size_bytes, size_bytes):
            raise RuntimeError("cudaErrorMemoryAllocation")
        self.total += size_bytes


@pytest.mark.parametrize("engine", [SGLANG, "topup"])
@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (lambda calls, total, size: total > 10_000, 3),
        (lambda calls, total, size: size >= 3000, 0),
        (lambda calls, total, size: calls == 3, 9),
        (lambda calls, total, size: False, 10),
    ],
)
def test_pins_that_fail_half_way_keep_what_succeeded(engine, rule, kept):
    from executor_builders import Chain, inputs  # noqa: PLC0415

    module = seeded(Chain, 10)
    plain = [module(inputs(step)) for step in range(3)]
    limits = Limits(rule)
    device = emulated(pin_limit=limits)
    with open_session(module, device=device, engine=engine) as session:
        for _ in range(2):
            for step in range(3):
                assert torch.equal(module(inputs(step)), plain[step])
        host = session.report().host
    layer_bytes = executable_for(module).model.components[0].stacks[0].layers[0].run_bytes
    assert host.pinned_bytes == kept * layer_bytes
    assert host.pinned_bytes + host.pageable_bytes == host.requested_pin_bytes == 10 * layer_bytes
    assert len(host.refused_pins) == 10 - kept
    assert all("cudaErrorMemoryAllocation" in line for line in host.refused_pins)


def test_large_stores_are_pinned_in_parts_below_the_single_call_ceiling(monkeypatch):
    assert host_store.PIN_PART_BYTES < 12 * 2**30
    monkeypatch.setattr(host_store, "PIN_PART_BYTES", 1000)
    limits = Limits(lambda calls, total, size: size > 1000)
    module = seeded(Odds, 4)
    with open_session(module, device=emulated(pin_limit=limits)) as session:
        host = session.report().host
    assert host.refused_pins == ()
    assert host.pinned_bytes == host.requested_pin_bytes == limits.total


def test_a_layer_is_pinned_with_few_calls():
    limits = Limits(lambda *_: False)
    module = seeded(Odds, 6)
    with open_session(module, device=emulated(pin_limit=limits)):
        pass
    assert limits.calls <= 6 * len({weight.dtype for weight in module.blocks[0].parameters()})


def test_no_pin_goes_beyond_the_budget():
    from executor_builders import Chain, inputs  # noqa: PLC0415

    module = seeded(Chain, 10)
    plain = module(inputs())
    from runtime.devices.protocol import Label  # noqa: PLC0415
    from runtime.host_store import HostStore  # noqa: PLC0415

    images = [LayerImage(list_weights(block.named_parameters())) for block in module.blocks]
    device = emulated()
    store = HostStore(device, PinLedger(images[0].size_bytes * 4 + 1))
    for layer, image in enumerate(images):
        store.host(image, HostTier.PINNED, Label("transformer", "blocks", layer))
    assert store.use().pinned_bytes == 4 * images[0].size_bytes
    assert store.use().pageable_bytes == 6 * images[0].size_bytes
    store.close()
    assert store.use().pinned_bytes == 0
    assert torch.equal(module(inputs()), plain)


def test_exact_size_registration_pins_34_layers_where_rounding_pins_20():
    from runtime.pinned import rounded_pin_bytes  # noqa: PLC0415
    from runtime.units import GIB  # noqa: PLC0415

    layer_bytes, budget = round(1.2024 * GIB), round(41.22 * GIB)
    exact, rounded = PinLedger(budget), PinLedger(budget)
    assert sum(exact.book(layer_bytes) for _ in range(50)) == 34
    assert sum(rounded.book(rounded_pin_bytes(layer_bytes)) for _ in range(50)) == 20
