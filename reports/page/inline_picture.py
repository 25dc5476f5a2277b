"""Figures as data inside a page: the same bytes for the same figure."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO

from matplotlib import rc_context
from matplotlib.figure import Figure

from reports.figures.png import COMPOSED_PX_PER_INCH, encode_png
from reports.figures.style import figure_style

# Above this a picture of points takes fewer bytes than one of shapes; eight of these stay within 3 MB.
_MAX_SHAPES_BYTES = 240_000
_POINTS_PER_INCH = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinePicture:
    """A ``data:`` address, and the size in which the picture was composed."""

    uri: str
    width_px: int
    height_px: int


def encode_picture(figure: Figure) -> InlinePicture:
    """``figure`` as SVG, which stays sharp when enlarged; as PNG where that would be too large."""
    kind, content = "svg+xml", _encode_svg(figure)
    if len(content) > _MAX_SHAPES_BYTES:
        kind, content = "png", encode_png(figure, _POINTS_PER_INCH)
    width_in, height_in = figure.get_size_inches()
    return InlinePicture(
        uri=f"data:image/{kind};base64,{b64encode(content).decode('ascii')}",
        width_px=round(width_in * COMPOSED_PX_PER_INCH),
        height_px=round(height_in * COMPOSED_PX_PER_INCH),
    )


def _encode_svg(figure: Figure) -> bytes:
    buffer = BytesIO()
    # Outlines instead of fonts: the picture looks the same wherever it is opened. The salt makes ids of shapes repeat.
    with figure_style(), rc_context({"svg.fonttype": "path", "svg.hashsalt": "layerstream"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
