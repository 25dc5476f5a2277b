"""How long it takes to read what a checkpoint is made of: 100 shards of one component, headers only.

Measured: ``read_inventory`` on a folder of 100 shards with 24 tensors each (a model of 500 GB in shards of 5 GB) and an
index, from open to inventory, file cache warm. The files are sparse: their sizes are real, their weights are holes.
Statistic: median and worst of nine runs after one that is not counted. The bound printed beside it is what parsing the
same JSON alone takes. The last line is one JSON object.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from autotune.checkpoint.pipeline import read_inventory

SHARDS = 100
TENSORS_PER_SHARD = 24
ROWS, COLUMNS = 12_288, 8_192
RUNS = 9


def write_shard(path: Path, number: int) -> list[str]:
    """One sparse shard; returns the names of its tensors."""
    size_bytes = ROWS * COLUMNS * 2
    names = [f"transformer_blocks.{number}.part_{index}.weight" for index in range(TENSORS_PER_SHARD)]
    header = {
        name: {
            "dtype": "BF16",
            "shape": [ROWS, COLUMNS],
            "data_offsets": [index * size_bytes, (index + 1) * size_bytes],
        }
        for index, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + TENSORS_PER_SHARD * size_bytes)
    return names


def write_checkpoint(folder: Path) -> None:
    """A component of 100 shards with its index."""
    weight_map: dict[str, str] = {}
    for number in range(SHARDS):
        shard = f"diffusion_pytorch_model-{number + 1:05}-of-{SHARDS:05}.safetensors"
        weight_map |= dict.fromkeys(write_shard(folder / shard, number), shard)
    index = folder / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def parse_headers(folder: Path) -> None:
    """Only the JSON of every header, unchecked."""
    for path in folder.glob("*.safetensors"):
        with path.open("rb", buffering=0) as file:
            json.loads(file.read(int.from_bytes(file.read(8), "little")))


def measure_s(run: Callable[[], object]) -> tuple[float, float]:
    """Median and worst of ``RUNS`` runs."""
    run()
    times: list[float] = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), max(times)


def main() -> None:
    """Measure, say it, and print one JSON object last."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_checkpoint(folder)
        total_bytes = read_inventory(folder).total_bytes
        median_s, worst_s = measure_s(lambda: read_inventory(folder))
        parse_s, _ = measure_s(lambda: parse_headers(folder))
    print(
        f"{SHARDS} shards, {SHARDS * TENSORS_PER_SHARD:,} tensors, {total_bytes / 1e9:,.0f} GB of weights: "
        f"{median_s * 1e3:.1f} ms (worst {worst_s * 1e3:.1f} ms); parsing the JSON alone takes {parse_s * 1e3:.1f} ms"
    )
    print(
        json.dumps(
            {
                "benchmark": "checkpoint",
                "cores": os.cpu_count(),
                "python": sys.version,
                "shards": SHARDS,
                "tensors": SHARDS * TENSORS_PER_SHARD,
                "median_s": median_s,
                "worst_s": worst_s,
                "parse_only_s": parse_s,
            }
        )
    )


if __name__ == "__main__":
    main()
