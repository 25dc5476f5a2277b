"""Fake safetensors files and folders: real headers, sparse bytes. No weight is ever written."""

import json
import math

from autotune.checkpoint.dtypes import BITS


def size_of(dtype, shape):
    return BITS[dtype] * math.prod(shape) // 8


def describe(tensors):
    """A valid header for ``name -> (dtype, shape)``, laid out in that order."""
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + size_of(dtype, shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    return header


def write_raw(path, text, data_bytes=0, *, length=None):
    """``text`` as the header of a file with ``data_bytes`` of holes behind it."""
    encoded = text if isinstance(text, bytes) else text.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write((len(encoded) if length is None else length).to_bytes(8, "little") + encoded)
        file.truncate(8 + len(encoded) + data_bytes)
    return path


def write_header(path, header):
    """A file with ``header`` (a dict) and as many bytes as it says."""
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return write_raw(path, json.dumps(header), max(ends, default=0))


def write_tensors(path, tensors):
    """A file that holds ``name -> (dtype, shape)``."""
    return write_header(path, describe(tensors))


def write_shards(folder, tensors, count, *, stem="diffusion_pytorch_model", index=True, total_size=True):
    """``tensors`` spread over ``count`` files of one split, with an index."""
    names = list(tensors)
    weight_map = {}
    for number in range(count):
        shard = f"{stem}-{number + 1:05}-of-{count:05}.safetensors"
        part = {name: tensors[name] for name in names[number::count]}
        write_tensors(folder / shard, part)
        weight_map |= dict.fromkeys(part, shard)
    document = {"weight_map": weight_map}
    if total_size:
        document["metadata"] = {"total_size": sum(size_of(*tensor) for tensor in tensors.values())}
    if index:
        (folder / f"{stem}.safetensors.index.json").write_text(json.dumps(document))
    return weight_map


def write_pipeline(folder, components, *, pipeline_class="Pipeline", extra=None):
    """A pipeline folder: ``name -> (class, tensors)``, each in one file; ``extra`` are further entries of its index."""
    index = {"_class_name": pipeline_class, "_diffusers_version": "0.42.1"}
    for name, (class_name, tensors) in components.items():
        index[name] = ["diffusers", class_name]
        write_tensors(folder / name / "diffusion_pytorch_model.safetensors", tensors)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model_index.json").write_text(json.dumps({**index, **(extra or {})}))
    return folder


def blocks(prefix, count, size_bytes, *, dtype="U8"):
    """``count`` layers with one tensor of ``size_bytes`` each."""
    elements = size_bytes * 8 // BITS[dtype]
    return {f"{prefix}.{index}.w": (dtype, (elements,)) for index in range(count)}
