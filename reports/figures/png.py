"""A figure as a picture file: the same bytes for the same figure."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

from reports.figures.style import figure_style

COMPOSED_PX_PER_INCH = 96
"""At this resolution a figure has the size that it was composed for, 640 px wide."""


def encode_png(figure: Figure, px_per_inch: int = COMPOSED_PX_PER_INCH) -> bytes:
    """``figure`` as PNG, without anything about who made it and when."""
    buffer = BytesIO()
    with figure_style():
        figure.savefig(buffer, format="png", dpi=px_per_inch, metadata={"Software": None})
    return buffer.getvalue()
