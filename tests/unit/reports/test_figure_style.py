"""What all figures share: the same bytes for the same data, whatever the user's own matplotlib settings say."""

from io import BytesIO

import pytest
from matplotlib import font_manager, rc_context
from matplotlib.text import Text
from run_data_builders import build_run_data

from reports.figures.memory import draw_memory
from reports.figures.search import draw_search
from reports.figures.stalls import draw_stalls
from reports.figures.style import new_figure, span_limits, wrap_text
from reports.figures.tradeoff import draw_tradeoff


def _encode(draw):
    buffer = BytesIO()
    draw(build_run_data()).savefig(buffer, format="png", dpi=96, metadata={"Software": None})
    return buffer.getvalue()


@pytest.mark.parametrize("draw", [draw_tradeoff, draw_memory, draw_stalls, draw_search])
def test_the_same_data_give_the_same_picture_whatever_the_users_settings(draw):
    plain = _encode(draw)
    with rc_context({"font.size": 20, "axes.grid": True, "font.family": ["serif"], "lines.linewidth": 5}):
        assert _encode(draw) == plain


def test_every_text_is_set_in_the_font_that_comes_with_matplotlib():
    texts = draw_tradeoff(build_run_data()).findobj(Text)
    assert {tuple(text.get_fontfamily()) for text in texts} == {("DejaVu Sans",)}
    assert "matplotlib" in font_manager.findfont("DejaVu Sans")


def test_a_figure_is_as_wide_as_640_css_pixels():
    assert new_figure(3.0, "finding").get_size_inches()[0] * 96 == pytest.approx(640)


def test_a_number_is_not_parted_from_its_unit():
    text = wrap_text("a plan of a request that waits for 97.4 % of it", 40)
    assert "97.4\u00a0%" in text
    assert wrap_text("24 s and 3 GiB of 5 layers", 80) == "24\u00a0s and 3\u00a0GiB of 5 layers"


def test_an_axis_covers_its_values_and_at_least_the_share_that_keeps_noise_small():
    low, high = span_limits([100.0, 100.1], 0.1)
    assert low < 96
    assert high > 104
    low, high = span_limits([10.0, 100.0], 0.1)
    assert (low, high) == (pytest.approx(2.8), pytest.approx(107.2))
    assert span_limits([0.0], 0.1) == (-1.0, 1.0)
