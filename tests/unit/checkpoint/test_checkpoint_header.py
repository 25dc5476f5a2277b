"""One file's header: what the reference library accepts is read, everything else is one clear error."""

import json
import os

import pytest
from checkpoint_files import describe, write_header, write_raw, write_tensors

from autotune.checkpoint.header import MAX_HEADER_BYTES, TensorEntry, read_header
from runtime.errors import CheckpointError

ONE = json.dumps(describe({"w": ("U8", (4,))}))
LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 9973693184\n"
)


def sizes(path):
    return {tensor.name: tensor.size_bytes for tensor in read_header(path).tensors}


def write_bytes(path, content, size=None):
    path.write_bytes(content)
    if size is not None:
        os.truncate(path, size)
    return path


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def bytes_read(monkeypatch):
    """Counts what is read from files."""
    counted = []
    pread = os.pread

    def counting(descriptor, count, offset):
        part = pread(descriptor, count, offset)
        counted.append((count, len(part), offset))
        return part

    monkeypatch.setattr(os, "pread", counting)
    return counted


def test_c1a_length_field_of_2_to_the_63_is_refused_without_an_allocation(file, bytes_read):
    write_raw(file, ONE, 4, length=2**63)
    with pytest.raises(CheckpointError, match=r"model\.safetensors claims a header of 9,223,372,036,854,775,808 bytes"):
        read_header(file)
    assert sum(count for count, _, _ in bytes_read) == 8


def test_c1b_empty_file_is_refused(file):
    with pytest.raises(CheckpointError, match=r"model\.safetensors has 0 bytes.*download it again"):
        read_header(write_bytes(file, b""))


def test_c1c_file_of_three_bytes_is_refused(file):
    with pytest.raises(CheckpointError, match=r"model\.safetensors has 3 bytes"):
        read_header(write_bytes(file, b"abc"))


def test_c1d_git_lfs_pointer_is_recognised(file):
    assert int.from_bytes(LFS_POINTER[:8], "little") == 2_336_927_755_350_992_246
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors is no safetensors file: it is a Git LFS pointer.*pull"
    ):
        read_header(write_bytes(file, LFS_POINTER))


def test_c1e_empty_header_is_refused(file):
    with pytest.raises(CheckpointError, match="empty header"):
        read_header(write_raw(file, "", 64))


@pytest.mark.parametrize("length", [99_992, 99_993, 100_000, 100_001])
def test_c1f_header_around_a_hundred_thousand_bytes_is_read_whole(file, length, bytes_read):
    header = describe({"w": ("U8", (4,))})
    name = "n" * (length - len(json.dumps({"": header["w"]})))
    assert sizes(write_header(file, {name: header["w"]})) == {name: 4}
    assert sum(size for _, size, _ in bytes_read) == 8 + length


def test_c1g_header_over_the_limit_of_the_reference_loader_is_refused_unread(file, bytes_read):
    size = 8 + MAX_HEADER_BYTES + 1
    write_bytes(file, (MAX_HEADER_BYTES + 1).to_bytes(8, "little"), size)
    with pytest.raises(CheckpointError, match=r"100,000,001 bytes: the reference loader refuses more than 100,000,000"):
        read_header(file)
    assert sum(count for count, _, _ in bytes_read) == 8


def test_c1h_header_padded_with_nul_is_refused(file):
    with pytest.raises(CheckpointError, match=r"model\.safetensors is not valid JSON \(it is padded with NUL"):
        read_header(write_raw(file, ONE + "\0" * 7, 4))


@pytest.mark.parametrize("text", [ONE + " " * 7, " " + ONE])
def test_c1i_header_padded_with_spaces_is_read(file, text):
    assert sizes(write_raw(file, text, 4)) == {"w": 4}


def test_c1j_header_that_is_a_list_is_refused(file):
    with pytest.raises(CheckpointError, match=r"model\.safetensors is a JSON list, not an object"):
        read_header(write_raw(file, "[1, 2]"))


@pytest.mark.parametrize(
    ("start", "message"),
    [(b"<!DOCTYPE html><html>", "web page"), (b"PK\x03\x04" + b"\xff" * 9, "pickle"), (b"GGUF\x03\0\0\0\xff", "GGUF")],
)
def test_other_files_under_the_name_of_a_checkpoint_are_recognised(file, start, message):
    with pytest.raises(CheckpointError, match=message):
        read_header(write_bytes(file, start))


def test_header_whose_length_looks_like_the_start_of_a_web_page_is_read(file):
    text = ONE + " " * ((ord("<") - len(ONE)) % 256)
    assert sizes(write_raw(file, text, 4)) == {"w": 4}


C3_SIZES = {
    "marker": ("F8_E4M3", (0,), 0),
    "scalar": ("F32", (), 4),
    "hollow": ("F32", (2, 0), 0),
    "bool": ("BOOL", (8,), 8),
    "e4m3": ("F8_E4M3", (4,), 4),
    "e5m2": ("F8_E5M2", (4,), 4),
    "e8m0": ("F8_E8M0", (4,), 4),
    "fnuz": ("F8_E4M3FNUZ", (4,), 4),
    "f4": ("F4", (2, 8), 8),
    "f6": ("F6_E2M3", (4,), 3),
    "u16": ("U16", (4,), 8),
    "c64": ("C64", (2,), 16),
}


def test_c3_every_dtype_has_the_bytes_between_its_offsets(file):
    header = describe({name: (dtype, shape) for name, (dtype, shape, _) in C3_SIZES.items()})
    reverse = dict(reversed(header.items()))
    read = sizes(write_header(file, {"__metadata__": {"format": "pt"}, **reverse}))
    assert read == {name: size for name, (_, _, size) in C3_SIZES.items()}
    assert read_header(file).warnings == ()


@pytest.mark.parametrize("header", ["{}", '{"__metadata__": {"format": "pt"}}'])
def test_c3_file_with_metadata_only_has_no_weights_and_a_warning(file, header):
    read = read_header(write_raw(file, header))
    assert read.tensors == ()
    assert read.warnings == ("model.safetensors holds no tensors, only metadata: 0 bytes of weights",)


@pytest.mark.parametrize("dtype", ["U4", "I4", "F8_NEW"])
def test_c3_unknown_dtype_is_named_and_counted_by_its_offsets(file, dtype):
    write_raw(file, json.dumps({"w": {"dtype": dtype, "shape": [16], "data_offsets": [0, 8]}}), 8)
    read = read_header(file)
    assert read.tensors == (TensorEntry(name="w", dtype=dtype, shape=(16,), start=0, end=8),)
    assert f"unknown dtype '{dtype}'" in read.warnings[0]


def test_c3_four_bit_elements_that_fill_no_byte_are_refused(file):
    write_raw(file, json.dumps({"w": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}), 2)
    with pytest.raises(CheckpointError, match=r"'w' has F4 elements of shape \[3\], which fill no whole bytes"):
        read_header(file)


def entry(start, end, *, dtype="U8", shape=None):
    return {"dtype": dtype, "shape": [end - start] if shape is None else shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("header", "data_bytes", "message"),
    [
        ({"a": entry(0, 8), "b": entry(4, 12)}, 12, "'a' and 'b' overlap at byte 4"),
        ({"a": entry(0, 4), "b": entry(8, 12)}, 12, "bytes 4 to 8, before tensor 'b', belong to no tensor"),
        ({"a": entry(4, 8)}, 8, "the first 4 bytes belong to no tensor"),
        ({"a": entry(0, 4)}, 9, "its last 5 bytes belong to no tensor"),
        ({"a": entry(0, 64)}, 60, "4 bytes shorter than its header says: the download broke off"),
        ({"a": entry(0, 8, dtype="F32", shape=[4])}, 8, r"'a' occupies 8 bytes, and F32 .*shape \[4\] need more"),
        ({"a": entry(0, 8, dtype="F32", shape=[1])}, 8, "need fewer"),
        ({"a": entry(0, 8, shape=[2**62, 2**62])}, 8, "need more"),
        ({"a": entry(8, 0, shape=[0])}, 0, "ends at byte 0, before it begins at 8"),
        ({"a": entry(0, -4, shape=[0])}, 0, "no valid data_offsets"),
        ({"a": entry(0, 2**64, shape=[0])}, 0, "no valid data_offsets"),
        ({"a": {**entry(0, 4), "data_offsets": [0, 4.0]}}, 4, "no valid data_offsets"),
        ({"a": {**entry(0, 4), "data_offsets": [False, 4]}}, 4, "no valid data_offsets"),
        ({"a": {**entry(0, 4), "data_offsets": [0, 4, 4]}}, 4, "no valid data_offsets"),
        ({"a": entry(0, 4, shape=[-4])}, 4, "no valid shape"),
        ({"a": entry(0, 4, shape=[1] * 100)}, 4, "no valid shape"),
        ({"a": entry(0, 4, shape="4")}, 4, "no valid shape"),
        ({"a": {**entry(0, 4), "dtype": 8}}, 4, "no dtype"),
        ({"a": 4}, 4, "described by a int"),
        ({"__metadata__": {"a": 1}}, 0, "__metadata__ must map names to text"),
        ({"__metadata__": []}, 0, "__metadata__ must map names to text"),
    ],
)
def test_header_that_contradicts_itself_or_its_file_is_refused(file, header, data_bytes, message):
    write_raw(file, json.dumps(header), data_bytes)
    with pytest.raises(CheckpointError, match=message) as caught:
        read_header(file)
    assert "model.safetensors" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{{"a": {json.dumps(entry(0, 4))}, "a": {json.dumps(entry(4, 8))}}}', "key 'a' is given twice"),
        ('{"a": {"dtype": "U8", "dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}', "'dtype' is given twice"),
        (b'{"\xff": 1}', "not UTF-8 at byte 2"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply|not valid JSON"),
        ('{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, NaN]}}', "NaN is no JSON number"),
        ('{"a": {"dtype": "U8", "shape": [' + "9" * 10_000 + '], "data_offsets": [0, 4]}}', "not valid JSON|shape"),
        ('{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}', "not valid JSON"),
        ('{"\\ud800": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}', "not Unicode"),
        ("null", "not an object"),
    ],
    ids=["tensor twice", "field twice", "latin-1", "deep", "NaN", "huge number", "cut", "surrogate", "null"],
)
def test_header_that_is_no_strict_json_is_refused(file, text, message):
    with pytest.raises(CheckpointError, match=message):
        read_header(write_raw(file, text, 4))


def test_only_the_header_of_a_large_file_is_read(file, bytes_read):
    write_tensors(file, {"a": ("BF16", (2**30,)), "b": ("F32", (3,))})
    before = file.stat()
    assert before.st_size > 2**31
    assert sizes(file) == {"a": 2**31, "b": 12}
    header_bytes = int.from_bytes(file.open("rb").read(8), "little")
    assert max(offset + count for count, _, offset in bytes_read) == 8 + header_bytes
    assert file.stat().st_blocks == before.st_blocks


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(CheckpointError, match="is no file"):
        read_header(tmp_path / "pipe.safetensors")
    with pytest.raises(CheckpointError, match=r"cannot read .*absent"):
        read_header(tmp_path / "absent.safetensors")
