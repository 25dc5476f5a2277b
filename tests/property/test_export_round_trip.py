from hypothesis import given
from hypothesis import strategies as st

from autotune.export.dialects import DIALECTS
from autotune.export.read_back import plan_from_options
from autotune.export.sglang import export_plan
from autotune.export.sglang_options import parse_options
from runtime.errors import FlagError
from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, StackSpec
from runtime.plan import Placement, Plan
from runtime.residency import Lifetime, Mode, Policy

STACKS = {
    "transformer": (12, 2),
    "transformer_2": (40,),
    "text_encoder": (5, 3),
    "text_encoder_2": (1,),
    "vae": (),
    "video_vae": (36,),
    "audio_vae": (1, 4, 2),
    "connectors": (7,),
}
LAYER = LayerSpec(checkpoint_bytes=8, run_bytes=8)
MODEL = ModelSpec(
    name="toy",
    components=tuple(
        ComponentSpec(
            name=name,
            class_name="Toy",
            stacks=tuple(StackSpec(name=str(index), layers=(LAYER,) * count) for index, count in enumerate(counts)),
            rest_run_bytes=0,
            rest_checkpoint_bytes=0,
            run_dtype="bfloat16",
        )
        for name, counts in STACKS.items()
    ),
)


@st.composite
def placements(draw, component):
    longest = component.max_layers
    modes = list(Mode) if longest else [Mode.RESIDENT, Mode.COMPONENT_OFFLOAD]
    mode = draw(st.sampled_from(modes))
    if mode is not Mode.LAYERWISE_OFFLOAD:
        return Placement(component=component.name, mode=mode)
    return Placement(
        component=component.name,
        mode=mode,
        prefetch=draw(st.integers(1, longest)),
        resident=draw(st.integers(0, longest)),
        policy=draw(st.sampled_from(Policy)),
        lifetime=draw(st.sampled_from(Lifetime)),
    )


PLANS = st.tuples(*(placements(component) for component in MODEL.components)).map(
    lambda drawn: Plan(engine="sglang@0.5.23", placements=drawn)
)


@given(plan=PLANS)
def test_parsing_an_exported_line_gives_the_plan_back(plan):
    export = export_plan(plan, MODEL)
    assert export.notes == ()
    assert plan_from_options(parse_options(export.argv), MODEL) == plan


@given(plan=PLANS, dialect=st.sampled_from(DIALECTS))
def test_a_dialect_either_refuses_a_plan_or_says_what_it_cannot_express(plan, dialect):
    try:
        export = export_plan(plan, MODEL, target=dialect.target)
    except FlagError:
        lossy = export_plan(plan, MODEL, target=dialect.target, allow_loss=True)
        assert any("would" in note for note in lossy.notes)
        return
    read = plan_from_options(parse_options(export.argv), MODEL)
    unsaid = [note for note in export.notes if "which is the same here" in note]
    assert read == plan or unsaid
