"""MiniMax-H3's variants, derived from the facts of the released model by arithmetic on its DiT.

Sources: SGLang-diffusion 0.5.23, runtime/models/dits/minimax_h3.py and minimax_h3_adaln_cache.py (which products are
quantised, what the cache holds), runtime/layers/quantization/fp8.py and configs/convrot_int8_config.py (bytes of a
quantised product), runtime/loader/weight_load_plan.py (where the server quantises).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from autotune.catalog.variants import Variant
from autotune.model_facts import ModelFacts
from autotune.work import GroupWork, UseWork, Work
from runtime.errors import InputError
from runtime.model_spec import ComponentSpec, LayerSpec
from runtime.pinned import rounded_pin_bytes

BLOCKS, REFINER = "blocks", "token_refiner.blocks"
_TRANSFORMER = "transformer"

HIDDEN, INNER, FFN, TIME = 5376, 7168, 14336, 2688
TIMESTEPS = 2
"""Timesteps of one forward of text to video: that of the video rows and that of the audio rows."""


class _Form(NamedTuple):
    """Bytes of each weight, of each output's bias and of each output's scale."""

    weight: int
    bias: int
    scale: int = 0


_BFLOAT16, _FLOAT32 = _Form(weight=2, bias=2), _Form(weight=4, bias=4)
_QUANTISED = _Form(weight=1, bias=2, scale=4)
"""FP8 or INT8 with one float32 scale per output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linear:
    """A matrix product of ``rows`` outputs and ``columns`` inputs, with or without a bias."""

    rows: int
    columns: int
    bias: bool = False

    def sizes(self, form: _Form) -> tuple[int, ...]:
        """Bytes of each of its tensors."""
        sizes = (self.rows * self.columns * form.weight, self.rows * form.bias * self.bias, self.rows * form.scale)
        return tuple(size for size in sizes if size)

    def run_work(self, times: int, form: _Form = _BFLOAT16) -> Work:
        """``times`` rows through it, as the tracker counts a matrix product; rows are as wide as its weights."""
        moved = times * (self.rows + self.columns) * form.weight + sum(self.sizes(form))
        return Work(matmul_flops=2.0 * times * self.rows * self.columns, matmul_bytes=float(moved))


def _count_bytes(linears: Iterable[_Linear], form: _Form) -> int:
    return sum(size for linear in linears for size in linear.sizes(form))


def _count_pinned_bytes(linears: Iterable[_Linear], form: _Form) -> int:
    """What torch's pinned allocator takes for their tensors, each rounded up."""
    return sum(rounded_pin_bytes(size) for linear in linears for size in linear.sizes(form))


def _saved_bytes(linears: Sequence[_Linear]) -> int:
    """What quantising saves over bfloat16."""
    return _count_bytes(linears, _BFLOAT16) - _count_bytes(linears, _QUANTISED)


def _saved_pinned_bytes(linears: Sequence[_Linear]) -> int:
    return _count_pinned_bytes(linears, _BFLOAT16) - _count_pinned_bytes(linears, _QUANTISED)


ATTENTION_AND_MLP = (
    *(_Linear(rows=INNER, columns=HIDDEN),) * 3,
    _Linear(rows=HIDDEN, columns=INNER),
    _Linear(rows=2 * FFN, columns=HIDDEN),
    _Linear(rows=HIDDEN, columns=FFN),
)
"""Of a block and of a refiner block: query, key, value, output, both halves of the gated product, the product back."""
MODULATION = _Linear(rows=18 * HIDDEN, columns=TIME, bias=True)
"""A block's adaLN projection."""
FINAL_MODULATION = _Linear(rows=2 * HIDDEN, columns=TIME, bias=True)
TEXT_PROJECTION = _Linear(rows=HIDDEN, columns=5120, bias=True)
TIME_EMBEDDER = (_Linear(rows=HIDDEN, columns=256, bias=True), _Linear(rows=TIME, columns=HIDDEN, bias=True))
"""Held in float32."""

CACHE_PLANS = 64
"""Slots of the cache, one per step of a request (SGLANG_DIFFUSION_MINIMAX_H3_ADALN_GPU_PLANS)."""
CURVE_POINTS, CURVE_DIMENSIONS = 1025, 8
"""Shape of the table that replaces the time embedder in pruned files, as public ports to other engines read it."""

# Every preset that lists fp8 has it at twice its bfloat16 rate, and attention stays in bfloat16: counted twice, it
# takes the same time as at the bfloat16 rate although the use has one dtype.
FP8_RATE_OVER_BFLOAT16 = 2.0

ADALN_ONLINE = Variant(
    name="adaln-online",
    title="adaLN projections left in the file, their outputs kept in a cache on the device",
    flags=(
        "--minimax-h3-adaln-online",
        "--minimax-h3-adaln-plan-width",
        str(TIMESTEPS),
        "--minimax-h3-adaln-host-cache-gb",
        "0",
    ),
    same_output=True,
    note="the first request after load reads the 26.1 GB of projections once from their file through the device and "
    "fills the cache, which is not in its predicted time; later requests of the same schedule find it filled. Plan "
    "width 2 is enough for text to video only, and host cache 0 keeps its 8 GB of pinned memory free. It needs the "
    "checkpoint in MiniMax's own layout",
)
FP8 = Variant(
    name="fp8",
    title="DiT quantised to FP8 while loading, products in FP8",
    flags=("--quantization", "fp8"),
    same_output=False,
    dtypes=("fp8",),
    load_device_bytes=66_280_430_144,
    note="the server loads the whole DiT in bfloat16 onto the device and quantises it there: the card must hold 66.3 "
    "GB at load although it streams later (48 GB cards are known to run out of memory then). Quantising the "
    "activations is not counted, and attention, which stays in bfloat16, is counted twice to take its own time",
)
INT8_ONLINE = Variant(
    name="int8-online",
    title="DiT quantised to INT8 (ConvRot) while loading",
    flags=("--quantization", "convrot_int8"),
    same_output=False,
    note="quantised layer by layer, so any card can load it; the adaLN projections stay in bfloat16 because their "
    "2,688 inputs are no multiple of 256. Needs comfy-kitchen except on compute capability 9.0, 10.0, 12.0, 12.1. No "
    "preset lists an INT8 rate: products are timed at the bfloat16 rate, and quantising the activations is not counted",
)
# The file holds the rows in the server's own order, so nothing that it leaves in bfloat16 is reordered.
INT8 = Variant(
    name="int8",
    title="released INT8 file with pruned adaLN projections",
    flags=("--transformer-weights-path", "minimax_h3_fl2va_pruned_int8_convrot.safetensors"),
    same_output=False,
    needs_checkpoint=True,
    note="attention and MLP of the 50 blocks in INT8, token refiner and text projection in bfloat16, adaLN projections "
    "of 8 inputs: assumed from the file's 19.53 GiB. Earlier servers called this kitchen_int8. Give the path of the "
    "file. Needs comfy-kitchen except on compute capability 9.0, 10.0, 12.0 and 12.1. No preset lists an INT8 rate: "
    "products are timed at the bfloat16 rate",
)
VARIANTS = (ADALN_ONLINE, FP8, INT8_ONLINE, INT8)


def derive_variant(facts: ModelFacts, name: str) -> ModelFacts:
    """The facts of one of ``VARIANTS``, from those of the released model under the same workload.

    Raises:
        InputError: the server refuses the variant for this request.
    """
    return _DERIVATIONS[name](facts)


def _derive_adaln_online(facts: ModelFacts) -> ModelFacts:
    steps = max(group.passes for use in facts.request.uses for group in use.groups if BLOCKS in group.stacks)
    if steps > CACHE_PLANS:
        raise InputError(
            f"the adaLN cache holds {CACHE_PLANS} steps and the request has {steps}: ask for fewer, or plan without it"
        )
    base = _component(facts)
    blocks = len(base.stack(BLOCKS).layers)
    entry_bytes = (blocks * MODULATION.rows + FINAL_MODULATION.rows) * 2
    # The key of a plan is one float32 per timestep and one int64 length.
    cache_bytes = CACHE_PLANS * (TIMESTEPS * (entry_bytes + 4) + 8)
    dropped, final = _count_bytes([MODULATION], _BFLOAT16), _count_bytes([FINAL_MODULATION], _BFLOAT16)

    def shrink(stack: str, layer: LayerSpec) -> LayerSpec:
        lost = dropped if stack == BLOCKS else 0
        return replace(layer, checkpoint_bytes=layer.checkpoint_bytes - lost, run_bytes=layer.run_bytes - lost)

    pinned = _count_pinned_bytes([*[MODULATION] * blocks, FINAL_MODULATION], _BFLOAT16)
    spec = replace(
        _map_layers(base, shrink),
        rest_run_bytes=base.rest_run_bytes - final + cache_bytes,
        rest_checkpoint_bytes=base.rest_checkpoint_bytes - final,
        unread_checkpoint_bytes=base.unread_checkpoint_bytes + blocks * dropped + final,
        offload_host_bytes=base.offload_host_bytes - pinned + cache_bytes,
    )
    # Each forward picks its entries out of the cache and sorts them by block: two copies, each read and written.
    picked = Work(other_bytes=4.0 * TIMESTEPS * entry_bytes)
    work = _map_work(facts, blocks=_subtract(MODULATION.run_work(TIMESTEPS)), outside=_subtract_final(picked))
    return _replace(facts, spec, replace(work, activation_bytes=work.activation_bytes + 2 * TIMESTEPS * entry_bytes))


def _derive_fp8(facts: ModelFacts) -> ModelFacts:
    products = {BLOCKS: (*ATTENTION_AND_MLP, MODULATION), REFINER: ATTENTION_AND_MLP}

    def shrink(stack: str, layer: LayerSpec) -> LayerSpec:
        # Everything has been on the device, so nothing of it is a view of the file any more.
        run_bytes = layer.run_bytes - _saved_bytes(products[stack])
        return replace(layer, run_bytes=run_bytes, transformed_bytes=run_bytes)

    spec = _quantise(_component(facts), shrink, products, (TEXT_PROJECTION, FINAL_MODULATION))
    work = _map_work(
        facts,
        blocks=lambda layer: _in_fp8(_lighten(layer, products[BLOCKS])),
        refiner=lambda layer: _in_fp8(_lighten(layer, products[REFINER])),
        outside=lambda rest: _lighten(rest, (FINAL_MODULATION,)),
        once=lambda rest: _lighten(rest, (TEXT_PROJECTION,)),
    )
    return _replace(facts, spec, replace(work, compute_dtype="fp8"))


def _derive_int8_online(facts: ModelFacts) -> ModelFacts:
    made = _count_bytes(ATTENTION_AND_MLP, _QUANTISED)

    def shrink(_: str, layer: LayerSpec) -> LayerSpec:
        return replace(layer, run_bytes=layer.run_bytes - _saved_bytes(ATTENTION_AND_MLP), transformed_bytes=made)

    products = {BLOCKS: ATTENTION_AND_MLP, REFINER: ATTENTION_AND_MLP}
    spec = _quantise(_component(facts), shrink, products, (TEXT_PROJECTION,))
    work = _map_work(
        facts,
        blocks=lambda layer: _lighten(layer, ATTENTION_AND_MLP),
        refiner=lambda layer: _lighten(layer, ATTENTION_AND_MLP),
        once=lambda rest: _lighten(rest, (TEXT_PROJECTION,)),
    )
    return _replace(facts, spec, work)


def _derive_int8(facts: ModelFacts) -> ModelFacts:
    base = _component(facts)
    pruned, final = (replace(linear, columns=CURVE_DIMENSIONS) for linear in (MODULATION, FINAL_MODULATION))
    made = _count_bytes(ATTENTION_AND_MLP, _QUANTISED)
    norms = base.stack(BLOCKS).layers[0].run_bytes - _count_bytes((*ATTENTION_AND_MLP, MODULATION), _BFLOAT16)
    pruned_bytes = _count_bytes([pruned], _FLOAT32)
    block = LayerSpec(
        checkpoint_bytes=norms + made + _count_bytes([pruned], _BFLOAT16),
        run_bytes=norms + made + pruned_bytes,
        transformed_bytes=made + pruned_bytes,
    )
    table = CURVE_POINTS * CURVE_DIMENSIONS * _FLOAT32.weight
    kept = base.rest_run_bytes - _count_bytes(TIME_EMBEDDER, _FLOAT32) - _count_bytes([FINAL_MODULATION], _BFLOAT16)
    spec = _map_layers(base, lambda stack, layer: block if stack == BLOCKS else replace(layer, transformed_bytes=0))
    spec = replace(
        spec,
        rest_run_bytes=kept + table + _count_bytes([final], _FLOAT32),
        rest_checkpoint_bytes=kept + table + _count_bytes([final], _BFLOAT16),
        offload_host_bytes=base.offload_host_bytes - _saved_by_pruning(len(base.stack(BLOCKS).layers), pruned, final),
    )
    work = _map_work(
        facts,
        blocks=lambda layer: _lighten(_prune(layer, pruned), ATTENTION_AND_MLP),
        outside=_subtract_final(final.run_work(TIMESTEPS, _FLOAT32)),
    )
    return _replace(facts, spec, work)


def _saved_by_pruning(blocks: int, pruned: _Linear, final: _Linear) -> int:
    """Pinned bytes that the pruned INT8 file saves over the released one."""
    table = rounded_pin_bytes(CURVE_POINTS * CURVE_DIMENSIONS * _FLOAT32.weight)
    block = _saved_pinned_bytes(ATTENTION_AND_MLP)
    block += _count_pinned_bytes([MODULATION], _BFLOAT16) - _count_pinned_bytes([pruned], _FLOAT32)
    rest = _count_pinned_bytes([FINAL_MODULATION], _BFLOAT16) - _count_pinned_bytes([final], _FLOAT32)
    return blocks * block + rest + _count_pinned_bytes(TIME_EMBEDDER, _FLOAT32) - table


def _prune(work: Work, pruned: _Linear) -> Work:
    return work + MODULATION.run_work(TIMESTEPS).scaled(-1.0) + pruned.run_work(TIMESTEPS, _FLOAT32)


_DERIVATIONS: Mapping[str, Callable[[ModelFacts], ModelFacts]] = {
    ADALN_ONLINE.name: _derive_adaln_online,
    FP8.name: _derive_fp8,
    INT8_ONLINE.name: _derive_int8_online,
    INT8.name: _derive_int8,
}


def _component(facts: ModelFacts) -> ComponentSpec:
    return facts.model.component(_TRANSFORMER)


def _quantise(
    spec: ComponentSpec,
    shrink: Callable[[str, LayerSpec], LayerSpec],
    products: Mapping[str, Sequence[_Linear]],
    rest: Sequence[_Linear],
) -> ComponentSpec:
    """The component with ``products`` of each layer, by stack, and those of the rest at one byte a weight."""
    pinned = sum(len(stack.layers) * _saved_pinned_bytes(products[stack.name]) for stack in spec.stacks)
    return replace(
        _map_layers(spec, shrink),
        rest_run_bytes=spec.rest_run_bytes - _saved_bytes(rest),
        offload_host_bytes=spec.offload_host_bytes - pinned - _saved_pinned_bytes(rest),
    )


def _map_layers(spec: ComponentSpec, change: Callable[[str, LayerSpec], LayerSpec]) -> ComponentSpec:
    stacks = tuple(
        replace(stack, layers=tuple(change(stack.name, layer) for layer in stack.layers)) for stack in spec.stacks
    )
    return replace(spec, stacks=stacks)


def _subtract(work: Work) -> Callable[[Work], Work]:
    return lambda base: base + work.scaled(-1.0)


def _subtract_final(added: Work) -> Callable[[Work], Work]:
    without = _subtract(FINAL_MODULATION.run_work(TIMESTEPS))
    return lambda rest: without(rest) + added


def _lighten(work: Work, linears: Sequence[_Linear]) -> Work:
    return replace(work, matmul_bytes=work.matmul_bytes - _saved_bytes(linears))


def _in_fp8(work: Work) -> Work:
    return replace(work, attention_flops=work.attention_flops * FP8_RATE_OVER_BFLOAT16)


def _as_it_is(work: Work) -> Work:
    return work


def _map_work(
    facts: ModelFacts,
    *,
    blocks: Callable[[Work], Work],
    refiner: Callable[[Work], Work] = _as_it_is,
    outside: Callable[[Work], Work] = _as_it_is,
    once: Callable[[Work], Work] = _as_it_is,
) -> UseWork:
    """The DiT's work with its layers, the rest of a block pass and the rest of a use each put through a function."""
    work = next(work for work in facts.work if work.component == _TRANSFORMER)
    changes = {BLOCKS: blocks, REFINER: refiner}
    groups = tuple(
        GroupWork(
            layers={stack: tuple(map(changes[stack], layers)) for stack, layers in group.layers.items()},
            outside=outside(group.outside) if BLOCKS in group.layers else group.outside,
        )
        for group in work.groups
    )
    return replace(work, groups=groups, outside=once(work.outside))


def _replace(facts: ModelFacts, spec: ComponentSpec, work: UseWork) -> ModelFacts:
    components = tuple(spec if part.name == spec.name else part for part in facts.model.components)
    return replace(
        facts,
        model=replace(facts.model, components=components),
        work=tuple(work if part.component == spec.name else part for part in facts.work),
    )
