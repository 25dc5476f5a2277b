"""Draws the pictures of this folder from run folders.

::

    autotune search --model H3 --vram-cap 24GiB --device rtx-4090 --out runs/h3
    autotune search --model Qwen-Image --vram-cap 24GiB --device rtx-5090 --out runs/qwen
    python docs/images/draw.py runs/h3 runs/qwen
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

from PIL import Image

from autotune.workflows.run_collection import collect_run
from reports.figures.memory import draw_memory
from reports.figures.png import encode_png
from reports.figures.timeline import draw_timeline
from reports.figures.tradeoff import draw_tradeoff

HERE = Path(__file__).parent
PIXELS_PER_INCH = 144
COLOURS = 64


def main() -> None:
    """Draw the pictures of the two run folders that are named."""
    h3, qwen = (collect_run(Path(folder)) for folder in sys.argv[1:3])
    for name, figure in (
        ("tradeoff-h3-24gib", draw_tradeoff(h3)),
        ("memory-h3-24gib", draw_memory(h3)),
        ("tradeoff-qwen-image-24gib", draw_tradeoff(qwen)),
        ("timeline-qwen-image-24gib", draw_timeline(qwen)),
    ):
        if figure is None:
            raise SystemExit(f"{name}: the run folder lacks what this picture needs")
        # A palette: a third of the bytes, and nobody sees it.
        picture = Image.open(BytesIO(encode_png(figure, PIXELS_PER_INCH))).convert("RGB")
        picture.quantize(COLOURS).save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
