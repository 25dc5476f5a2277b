"""``autotune search --model PATH``: a released pipeline on disk, and one that no catalog knows."""

import pytest
from checkpoint_files import blocks, write_pipeline, write_tensors
from released_files import describe_h3, quantize

from autotune.capture_cache import load_model_facts
from autotune.checkpoint.facts import load_checkpoint_facts
from autotune.workflows.inputs import find_checkpoint
from runtime.plan_document import load_plan

QUICK = ("--vram-cap", "24GiB", "--device", "rtx-4090", "--trials", "0", "--max-prefetch", "1", "--no-advice")


@pytest.fixture(scope="module")
def h3_files():
    return describe_h3()


@pytest.fixture(scope="module")
def h3_folder(tmp_path_factory, h3_files):
    """MiniMax-H3 as released: 144 GB of holes."""
    return write_pipeline(tmp_path_factory.mktemp("hub") / "H3-copy", h3_files, pipeline_class="MiniMaxH3Pipeline")


def load(path):
    return load_checkpoint_facts(path, {}, progress=lambda _: None)


def test_released_h3_folder_has_the_bytes_and_the_work_of_the_catalog(h3_folder):
    facts, catalog = load(h3_folder), load_model_facts("H3")
    assert facts.model == catalog.model
    assert (facts.request, facts.work) == (catalog.request, catalog.work)
    assert facts.notes[0].endswith("all bytes are equal")
    files = sum(path.stat().st_size for path in h3_folder.rglob("*.safetensors"))
    counted = sum(part.checkpoint_bytes + part.unread_checkpoint_bytes for part in catalog.model.components)
    assert 0 < files - counted < 2**20


def test_released_h3_folder_is_planned_like_the_catalog_model(h3_folder, run_cli, tmp_path):
    plans = []
    for name, model in (("folder", h3_folder), ("catalog", "H3")):
        code, _, err = run_cli("search", "--model", model, *QUICK, "--out", tmp_path / name)
        assert code == 0, err
        plans.append(load_plan(tmp_path / name / "plan.json"))
    assert plans[0].plan == plans[1].plan
    assert any("H3-copy has the layers of H3" in note for note in plans[0].assumptions)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "I8"])
def test_quantised_h3_transformer_is_planned_with_the_bytes_of_its_file(h3_files, tmp_path, dtype):
    tensors = quantize(h3_files["transformer"][1], dtype, ("transformer_blocks", "token_refiner.refiner_blocks"))
    facts, catalog = load(write_tensors(tmp_path / "h3.safetensors", tensors)), load_model_facts("H3")
    small, released = (part.model.component("transformer") for part in (facts, catalog))
    assert 0.5 < small.stack_run_bytes / released.stack_run_bytes < 0.51
    assert [(stack.name, len(stack.layers)) for stack in small.stacks] == [("blocks", 50), ("token_refiner.blocks", 2)]
    assert facts.work == catalog.work


def test_pruned_h3_has_passes_over_the_layers_that_are_left(h3_files, tmp_path):
    gone = tuple(f"transformer_blocks.{index}." for index in range(40, 50))
    tensors = {name: part for name, part in h3_files["transformer"][1].items() if not name.startswith(gone)}
    facts, catalog = load(write_tensors(tmp_path / "h3.safetensors", tensors)), load_model_facts("H3")
    index = next(index for index, work in enumerate(catalog.work) if work.component == "transformer")
    assert len(facts.work[index].groups[1].layers["blocks"]) == 40
    assert facts.request == catalog.request


def test_unknown_folder_is_planned_and_its_compute_is_said_to_be_unknown(run_cli, tmp_path):
    parts = {
        "text_encoder": ("NewEncoder", blocks("layers", 12, 2**28)),
        "transformer": ("NewTransformer", blocks("blocks", 30, 2**30)),
        "vae": ("NewVAE", {"decoder.weight": ("F32", (2**26,))}),
    }
    folder = write_pipeline(tmp_path / "new-model", parts)
    code, _, err = run_cli("search", "--model", folder, *QUICK, "--steps", "20", "--out", tmp_path / "run")
    assert code == 0, err
    assert "compute is unknown" in err
    document = load_plan(tmp_path / "run" / "plan.json")
    assert any("compute is unknown" in text for text in document.assumptions)
    assert "compute is unknown" in (tmp_path / "run" / "report.md").read_text()
    streamed = document.plan.placement("transformer")
    assert 0 < streamed.resident < 30
    assert document.prediction.peak.charged_bytes <= 24 * 2**30


def test_unknown_file_that_fits_whole_is_kept_whole(run_cli, tmp_path):
    file = write_tensors(tmp_path / "small.safetensors", blocks("blocks", 4, 2**20))
    code, _, err = run_cli("search", "--model", file, *QUICK, "--out", tmp_path / "run")
    assert code == 0, err
    assert "resident" in load_plan(tmp_path / "run" / "plan.json").plan.placements[0].describe()


@pytest.mark.parametrize("name", ["nowhere/at-all", "./absent", "~nobody/absent", "a/" + "b" * 5000])
def test_path_that_does_not_exist_is_an_input_error(run_cli, name, tmp_path):
    code, _, err = run_cli("search", "--model", name, *QUICK, "--out", tmp_path / "run")
    assert code == 2
    assert "cannot be found: name a folder" in err


def test_damaged_file_is_an_input_error_that_names_it(run_cli, tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 64)
    code, _, err = run_cli("search", "--model", tmp_path / "bad.safetensors", *QUICK, "--out", tmp_path / "run")
    assert code == 2
    assert "bad.safetensors claims a header" in err


def test_names_of_the_catalog_win_over_paths_unless_a_repository_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("H3", "model"):
        (tmp_path / name).mkdir()
    assert find_checkpoint(None) is None
    assert find_checkpoint("H3") is None
    assert find_checkpoint("MiniMaxAI/MiniMax-H3") is None
    assert find_checkpoint("unknown-name") is None
    assert str(find_checkpoint("model")) == "model"
    (tmp_path / "MiniMaxAI" / "MiniMax-H3").mkdir(parents=True)
    assert str(find_checkpoint("MiniMaxAI/MiniMax-H3")) == "MiniMaxAI/MiniMax-H3"
