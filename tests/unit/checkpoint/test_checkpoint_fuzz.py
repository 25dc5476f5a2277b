"""Damaged headers and folders, drawn with a fixed seed: always facts or one of this program's own errors."""

import json
import random
import shutil

import msgspec
import pytest
from checkpoint_files import describe, write_pipeline, write_raw, write_shards

from autotune.checkpoint.facts import load_checkpoint_facts
from runtime.errors import CheckpointError, InputError

DAMAGED_BYTES, DAMAGED_VALUES, DAMAGED_FOLDERS = 300, 300, 120
TENSORS = {f"blocks.{index}.attn.{part}": ("BF16", (4, 4)) for index in range(3) for part in ("q", "k")}
TENSORS |= {"embed.weight": ("F32", (8,)), "marker": ("F8_E4M3", (0,))}
ODD_VALUES = [
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**400, 0.5, 1e308, "", "x", "\0", "../..", "\ud800", "blocks.0", [],
    [[]], [-1], [0, 0], [2**63, 2**63], [None, None], {}, {"a": {}}, ["diffusers", None], ["diffusers", "\ud800"],
    "F4", "U4", "BF16",
]  # fmt: skip


def try_to_load(path):
    """Whether there were facts; anything but an error of this program ends the test."""
    try:
        facts = load_checkpoint_facts(path, {"steps": 4}, progress=lambda _: None)
    except InputError:
        return False
    return bool(msgspec.json.encode(facts))


def places_in(value, path=()):
    """Every place inside a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_in(item, (*path, key))


def damage_value(random, document):
    """One or two places replaced, removed or renamed."""
    for _ in range(random.randint(1, 2)):
        *parents, last = random.choice([place for place in places_in(document) if place])
        holder = document
        for key in parents:
            holder = holder[key]
        change = random.randrange(3)
        if change == 0:
            holder[last] = random.choice(ODD_VALUES)
        elif change == 1:
            del holder[last]
        elif isinstance(holder, dict):
            holder[str(random.choice(["", "a", "blocks.1.attn.q", "blocks.7", "\n", "é", "__metadata__"]))] = (
                holder.pop(last)
            )
        else:
            holder.append(random.choice(ODD_VALUES))
    return document


def test_headers_with_damaged_bytes_never_break_the_reader(tmp_path):
    draw = random.Random(668)
    whole = write_raw(tmp_path / "whole.safetensors", json.dumps(describe(TENSORS)), 224).read_bytes()
    file = tmp_path / "model.safetensors"
    outcomes = set()
    for _ in range(DAMAGED_BYTES):
        content = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            kind, at = draw.randrange(4), draw.randrange(len(content))
            if kind == 0:
                content[at] = draw.randrange(256)
            elif kind == 1:
                del content[at:]
                content += b"\0" * 9
            elif kind == 2:
                content[at:at] = draw.randbytes(draw.randint(1, 9))
            else:
                content[: draw.randint(1, 8)] = draw.randbytes(8)
        file.write_bytes(content)
        outcomes.add(try_to_load(file))
    assert False in outcomes


def test_headers_with_damaged_values_never_break_the_reader(tmp_path):
    draw = random.Random(1607)
    outcomes = set()
    for _ in range(DAMAGED_VALUES):
        header = damage_value(draw, describe(TENSORS))
        file = write_raw(tmp_path / "model.safetensors", json.dumps(header), draw.choice([224, 224, 0, 500]))
        outcomes.add(try_to_load(file))
    assert outcomes == {True, False}


def test_damaged_folders_never_break_the_reader(tmp_path):
    draw = random.Random(35107)
    outcomes = set()
    for number in range(DAMAGED_FOLDERS):
        folder = tmp_path / str(number)
        write_pipeline(folder, {"vae": ("SomeVAE", {"w": ("F32", (2,))})}, extra={"transformer": ["diffusers", "T"]})
        write_shards(folder / "transformer", TENSORS, 2)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        victim = draw.choice(files)
        if victim.suffix == ".json":
            victim.write_text(json.dumps(damage_value(draw, json.loads(victim.read_text()))))
        elif draw.random() < 0.3:
            victim.unlink()
        elif draw.random() < 0.5:
            victim.rename(
                victim.with_name(draw.choice(["x.bin", "model.fp16.safetensors", "a-00001-of-00009.safetensors"]))
            )
        else:
            content = bytearray(victim.read_bytes())
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            victim.write_bytes(content)
        outcomes.add(try_to_load(folder))
        shutil.rmtree(folder)
    assert outcomes == {True, False}


def test_errors_of_the_reader_are_input_errors():
    assert issubclass(CheckpointError, InputError)
    assert CheckpointError.exit_code == 2


@pytest.mark.parametrize("depth", [1_000, 200_000])
def test_deep_nesting_anywhere_is_one_error(tmp_path, depth):
    (tmp_path / "model_index.json").write_text('{"transformer": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(CheckpointError):
        load_checkpoint_facts(tmp_path, {}, progress=lambda _: None)
