"""Small models whose components have the names and stack shapes that matter to the server's options."""

from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, StackSpec
from runtime.plan import Placement, Plan
from runtime.residency import Mode

E2_STACKS = {
    "transformer": (60,),
    "transformer_2": (60,),
    "text_encoder": (24,),
    "text_encoder_2": (12,),
    "text_encoder_3": (8,),
    "vae": (10,),
    "audio_vae": (9,),
    "image_encoder": (6,),
    "connectors": (5,),
}


def build_model(stacks):
    layer = LayerSpec(checkpoint_bytes=8, run_bytes=8)
    return ModelSpec(
        name="toy",
        components=tuple(
            ComponentSpec(
                name=name,
                class_name="Toy",
                stacks=tuple(
                    StackSpec(name=f"stack_{index}", layers=(layer,) * count) for index, count in enumerate(counts)
                ),
                rest_run_bytes=0,
                rest_checkpoint_bytes=0,
                run_dtype="bfloat16",
            )
            for name, counts in stacks.items()
        ),
    )


def streamed(component, **knobs):
    return Placement(component=component, mode=Mode.LAYERWISE_OFFLOAD, **knobs)


def moved_whole(component):
    return Placement(component=component, mode=Mode.COMPONENT_OFFLOAD)


def build_plan(model, *placements, **changes):
    """A plan that keeps resident whatever ``placements`` do not place."""
    given = {placement.component: placement for placement in placements}
    return Plan(
        engine="sglang@0.5.23",
        placements=tuple(
            given.get(component.name, Placement(component=component.name, mode=Mode.RESIDENT))
            for component in model.components
        ),
        **changes,
    )
