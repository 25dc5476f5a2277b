"""Component and pipeline folders: the index counts, nothing is summed twice, absent optional parts are no error."""

import json

import pytest
from checkpoint_files import write_pipeline, write_raw, write_shards, write_tensors

from autotune.checkpoint.folder import read_files
from autotune.checkpoint.pipeline import read_inventory
from runtime.errors import CheckpointError

TENSORS = {"a": ("U8", (100,)), "b": ("U8", (20,)), "c": ("U8", (3,))}
INDEX = "diffusion_pytorch_model.safetensors.index.json"
DIT = ("FluxTransformer2DModel", {"transformer_blocks.0.w": ("BF16", (8,)), "transformer_blocks.1.w": ("BF16", (8,))})


def total(found):
    return sum(tensor.size_bytes for tensor in found.tensors)


def edit_index(folder, change):
    path = folder / INDEX
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_c5a_shard_that_the_index_lists_and_the_folder_lacks_is_named(tmp_path):
    write_shards(tmp_path, TENSORS, 2)
    (tmp_path / "diffusion_pytorch_model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        CheckpointError, match=r"incomplete: .*lists diffusion_pytorch_model-00002-of-00002\.safetensors"
    ):
        read_files(tmp_path)


def test_c5b_tensor_that_its_shard_lacks_is_named_with_the_shard(tmp_path):
    write_shards(tmp_path, TENSORS, 2)
    edit_index(
        tmp_path,
        lambda document: document["weight_map"].update(b="diffusion_pytorch_model-00001-of-00002.safetensors"),
    )
    with pytest.raises(CheckpointError, match=r"tensor 'b' is in diffusion_pytorch_model-00001-of-00002\.safetensors"):
        read_files(tmp_path)


def test_c5c_of_two_splits_only_the_indexed_one_counts_and_the_other_is_noted(tmp_path):
    write_shards(tmp_path, TENSORS, 3, index=False)
    write_shards(tmp_path, TENSORS, 2)
    found = read_files(tmp_path)
    assert total(found) == 123
    assert len(found.files) == 2
    assert (
        "does not list diffusion_pytorch_model-00001-of-00003.safetensors and 2 more; not counted" in found.warnings[0]
    )


def test_c5d_index_without_a_total_is_fine(tmp_path):
    write_shards(tmp_path, TENSORS, 2, total_size=False)
    found = read_files(tmp_path)
    assert (total(found), found.warnings) == (123, ())


def test_index_with_another_total_than_its_tensors_is_noted(tmp_path):
    write_shards(tmp_path, TENSORS, 2)
    edit_index(tmp_path, lambda document: document["metadata"].update(total_size=7))
    found = read_files(tmp_path)
    assert total(found) == 123
    assert "states a total of 7 bytes, its tensors have 123" in found.warnings[0]


def test_c5e_of_two_precisions_without_an_index_the_plain_one_is_read_and_named(tmp_path):
    write_tensors(tmp_path / "diffusion_pytorch_model.safetensors", {"a": ("F32", (10,))})
    write_tensors(tmp_path / "diffusion_pytorch_model.fp16.safetensors", {"a": ("F16", (10,))})
    found = read_files(tmp_path)
    assert total(found) == 40
    assert "diffusion_pytorch_model.safetensors is read and not diffusion_pytorch_model.fp16" in found.warnings[0]


def test_c5e_of_two_precisions_with_a_suffix_one_is_chosen(tmp_path):
    for precision, dtype in (("fp16", "F16"), ("bf16", "BF16"), ("fp32", "F32")):
        write_tensors(tmp_path / f"model.{precision}.safetensors", {"a": (dtype, (10,))})
    found = read_files(tmp_path)
    assert [path.name for path in found.files] == ["model.bf16.safetensors"]
    assert total(found) == 20


def test_precision_that_is_alone_is_read_without_a_warning(tmp_path):
    write_tensors(tmp_path / "model.fp16.safetensors", {"a": ("F16", (10,))})
    assert read_files(tmp_path).warnings == ()


@pytest.mark.parametrize("names", [["model.bin.index.json", "model-1.bin"], ["model.bin.index.json"], ["x.ckpt"]])
def test_c5f_folder_with_pickles_only_says_so(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("{}")
    with pytest.raises(CheckpointError, match=r"found only pickle weights.*convert"):
        read_files(tmp_path)


def test_c5g_component_stored_as_two_nulls_is_absent_without_a_warning(tmp_path):
    write_pipeline(tmp_path, {"transformer": DIT}, extra={"safety_checker": [None, None], "boundary_ratio": 0.875})
    inventory = read_inventory(tmp_path)
    assert [part.name for part in inventory.components] == ["transformer"]
    assert inventory.warnings == ()


@pytest.mark.parametrize("text", ["{}", '{"_class_name": "FluxPipeline"}', '{"safety_checker": [null, null]}'])
def test_c5h_pipeline_index_that_names_nothing_is_refused(tmp_path, text):
    (tmp_path / "model_index.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"model_index\.json names no components"):
        read_inventory(tmp_path)


def test_c5i_tokenizers_and_schedulers_have_no_weights_and_no_warning(tmp_path):
    extra = {
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "feature_extractor": ["transformers", "CLIPImageProcessor"],
    }
    write_pipeline(tmp_path, {"transformer": DIT}, extra=extra)
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "vocab.json").write_text("{}")
    (tmp_path / "scheduler").mkdir()
    inventory = read_inventory(tmp_path)
    assert [part.name for part in inventory.components] == ["transformer"]
    assert inventory.warnings == ()


@pytest.mark.parametrize("config", [None, "{}"])
def test_model_without_its_weights_is_an_incomplete_download(tmp_path, config):
    write_pipeline(tmp_path, {"transformer": DIT}, extra={"vae": ["diffusers", "AutoencoderKL"]})
    if config:
        (tmp_path / "vae").mkdir()
        (tmp_path / "vae" / "config.json").write_text(config)
    with pytest.raises(CheckpointError, match=r"incomplete: its index names vae \(AutoencoderKL\)"):
        read_inventory(tmp_path)


def test_inventory_says_what_each_component_is(tmp_path):
    vae = ("AutoencoderKL", {"decoder.w": ("F32", (2,)), "decoder.v": ("BF16", (100,))})
    write_pipeline(tmp_path, {"transformer": DIT, "vae": vae}, pipeline_class="FluxPipeline")
    inventory = read_inventory(tmp_path)
    assert inventory.pipeline_class == "FluxPipeline"
    assert [(part.name, part.library, part.class_name, part.total_bytes) for part in inventory.components] == [
        ("transformer", "diffusers", "FluxTransformer2DModel", 32),
        ("vae", "diffusers", "AutoencoderKL", 208),
    ]
    assert inventory.components[1].dtype_bytes == {"BF16": 200, "F32": 8}
    assert inventory.total_bytes == 240


@pytest.mark.parametrize(
    "shard", ["../outside.safetensors", "/etc/outside.safetensors", "deep/x.safetensors", "..", "a\\b.safetensors", 7]
)
def test_index_cannot_reach_outside_its_folder(tmp_path, shard):
    folder = tmp_path / "transformer"
    write_shards(folder, TENSORS, 2)
    write_tensors(tmp_path / "outside.safetensors", {"a": ("U8", (100,))})
    edit_index(folder, lambda document: document["weight_map"].update(a=shard))
    with pytest.raises(CheckpointError, match=r"a shard is a \.safetensors file beside its index"):
        read_files(folder)


@pytest.mark.parametrize("name", ["../vae", "/etc", "..", "a/b", ""])
def test_pipeline_index_cannot_reach_outside_its_folder(tmp_path, name):
    write_pipeline(tmp_path, {"transformer": DIT}, extra={name: ["diffusers", "AutoencoderKL"]})
    with pytest.raises(CheckpointError, match="a component is a folder beside that file"):
        read_inventory(tmp_path)


def test_shards_that_are_links_into_a_cache_are_read(tmp_path):
    write_tensors(tmp_path / "blobs" / "4d7a", TENSORS)
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "model.safetensors").symlink_to(tmp_path / "blobs" / "4d7a")
    assert total(read_files(tmp_path / "snapshot")) == 123


def test_one_tensor_in_two_files_without_an_index_is_refused(tmp_path):
    write_tensors(tmp_path / "one.safetensors", TENSORS)
    write_tensors(tmp_path / "two.safetensors", {"b": ("U8", (20,))})
    with pytest.raises(CheckpointError, match=r"tensor 'b' is both in one\.safetensors and in two\.safetensors"):
        read_files(tmp_path)


def test_split_without_an_index_must_be_whole(tmp_path):
    write_shards(tmp_path, TENSORS, 3, index=False)
    assert total(read_files(tmp_path)) == 123
    (tmp_path / "diffusion_pytorch_model-00002-of-00003.safetensors").unlink()
    with pytest.raises(CheckpointError, match="2 of the 3 files of diffusion_pytorch_model are there, and no index"):
        read_files(tmp_path)


def test_several_indexes_of_which_none_is_the_usual_one_are_refused(tmp_path):
    for stem in ("one", "two"):
        write_shards(tmp_path, TENSORS, 1, stem=stem)
    with pytest.raises(CheckpointError, match="several indexes"):
        read_files(tmp_path)


@pytest.mark.parametrize("text", ["{}", '{"weight_map": {}}', '{"weight_map": []}', "[]", "", "{" * 50_000])
def test_damaged_index_is_refused(tmp_path, text):
    write_shards(tmp_path, TENSORS, 2)
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(CheckpointError, match=INDEX):
        read_files(tmp_path)


def test_single_file_and_single_component_are_named_after_what_they_are(tmp_path):
    file = write_tensors(tmp_path / "anything.safetensors", TENSORS)
    assert [part.name for part in read_inventory(file).components] == ["transformer"]
    folder = tmp_path / "weights"
    write_tensors(folder / "model.safetensors", TENSORS)
    (folder / "config.json").write_text('{"_class_name": "AutoencoderKLWan"}')
    part = read_inventory(folder).components[0]
    assert (part.name, part.class_name) == ("vae", "AutoencoderKLWan")


def test_path_without_weights_says_what_to_name(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be found: name a folder"):
        read_inventory(tmp_path / "absent")
    with pytest.raises(CheckpointError, match="has no weights: name a folder"):
        read_inventory(tmp_path)
    (tmp_path / "snapshots").mkdir()
    with pytest.raises(CheckpointError, match="download cache; name the folder below its snapshots"):
        read_inventory(tmp_path)
    write_pipeline(tmp_path / "FL2VA", {"transformer": DIT})
    with pytest.raises(CheckpointError, match="it has pipelines in FL2VA; name one"):
        read_inventory(tmp_path)


def test_damaged_file_inside_a_pipeline_is_named_with_its_component(tmp_path):
    write_pipeline(tmp_path, {"transformer": DIT})
    write_raw(tmp_path / "transformer" / "diffusion_pytorch_model.safetensors", "[]")
    with pytest.raises(CheckpointError, match=r"transformer.diffusion_pytorch_model\.safetensors is a JSON list"):
        read_inventory(tmp_path)
