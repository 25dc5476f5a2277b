import pytest

from autotune.model_facts import ModelFacts
from autotune.work import GroupWork, UseWork, Work
from autotune.workload import Workload
from runtime.errors import InputError
from runtime.model_spec import ComponentSpec, LayerSpec, ModelSpec, PassGroup, RequestSpec, StackSpec, UseSpec

LAYER = LayerSpec(checkpoint_bytes=8, run_bytes=4)
SMALL = Workload(width=64, height=64, frames=1, steps=1, prompt_tokens=1)


def build_spec(*stacks, **changes):
    values = {
        "name": "dit",
        "class_name": "Toy",
        "stacks": stacks,
        "rest_run_bytes": 10,
        "rest_checkpoint_bytes": 20,
        "run_dtype": "bfloat16",
    }
    return ComponentSpec(**{**values, **changes})


@pytest.mark.parametrize("sizes", [(-1, 0), (0, -1)])
def test_a_layer_has_no_negative_bytes(sizes):
    with pytest.raises(InputError, match="bytes lie between 0 and"):
        LayerSpec(checkpoint_bytes=sizes[0], run_bytes=sizes[1])


def test_an_empty_layer_is_legal():
    assert LayerSpec(checkpoint_bytes=0, run_bytes=0).run_bytes == 0


def test_a_component_names_each_stack_once():
    stack = StackSpec(name="blocks", layers=(LAYER,))
    with pytest.raises(InputError, match=r"component 'dit' names a stack twice: \['blocks', 'blocks'\]"):
        build_spec(stack, stack)


@pytest.mark.parametrize("passes", [0, -1])
def test_a_pass_group_has_at_least_one_pass(passes):
    with pytest.raises(InputError, match=f"needs 1 to 1,000,000 passes, got {passes}"):
        PassGroup(stacks=("blocks",), passes=passes)


def test_a_model_has_no_component_that_it_does_not_name():
    with pytest.raises(InputError, match="toy has no component 'vae': it has dit"):
        ModelSpec(name="toy", components=(build_spec(),)).component("vae")


def test_run_bytes_and_checkpoint_bytes_are_counted_apart():
    spec = build_spec(
        StackSpec(name="a", layers=(LAYER,) * 3),
        StackSpec(name="b", layers=(LAYER,)),
        host_table_bytes=100,
        host_table_checkpoint_bytes=200,
    )
    assert (spec.stack_run_bytes, spec.run_bytes, spec.checkpoint_bytes) == (16, 126, 252)
    assert spec.max_layers == 3


@pytest.mark.parametrize(
    ("name", "value"), [("width", 0), ("height", -1), ("frames", 0), ("steps", 0), ("prompt_tokens", 0), ("batch", 0)]
)
def test_a_workload_counts_from_one(name, value):
    values = {"width": 64, "height": 64, "frames": 1, "steps": 1, "prompt_tokens": 1, "batch": 1}
    with pytest.raises(InputError, match=f"--{name.replace('_', '-')} is {value}: it must be from 1 to"):
        Workload(**{**values, name: value})


def build_model_facts(*, used="dit", worked="dit", layers=3):
    component = build_spec(StackSpec(name="blocks", layers=(LAYER,) * 3))
    group = GroupWork(layers={"blocks": (Work(),) * layers})
    return ModelFacts(
        model=ModelSpec(name="toy", components=(component,)),
        workload=SMALL,
        request=RequestSpec(uses=(UseSpec(component=used, groups=(PassGroup(stacks=("blocks",), passes=1),)),)),
        work=(UseWork(component=worked, compute_dtype="bfloat16", groups=(group,)),),
        output_frames_bytes=0,
    )


def test_facts_know_the_work_of_every_use():
    assert build_model_facts().work[0].component == "dit"
    with pytest.raises(InputError, match=r"work is given for \['vae'\], the request uses \['dit'\]"):
        build_model_facts(worked="vae")


def test_facts_know_the_work_of_every_layer():
    with pytest.raises(InputError, match=r"work of dit\.blocks does not cover each of its layers"):
        build_model_facts(layers=2)


def test_facts_refuse_a_use_of_an_unknown_component():
    with pytest.raises(InputError, match="toy has no component 'vae'"):
        build_model_facts(used="vae", worked="vae")
