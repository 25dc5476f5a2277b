import contextlib
import csv
import io

import hypothesis.strategies as st
from hypothesis import given

from autotune.observed.csv_rows import COLUMNS, parse_rows
from autotune.observed.measured_row import read_row
from autotune.observed.observation import Observation
from autotune.observed.refusal import RowRefusedError

GOOD = {
    "gpu": "RTX 4090",
    "model": "MiniMax-H3",
    "component": "DiT+TE+VAE layerwise",
    "workload": "864x480 124f",
    "steps": "21",
    "prefetch": "1",
    "resident": "0",
    "peak_vram": "18",
    "peak_unit": "GiB peak reserved",
    "latency_s": "10.6",
    "latency_scope": "denoise per step",
    "oom": "no",
}
# Words and signs of real tables, so that cells are nearly right more often than by chance.
PIECES = st.sampled_from(
    "RTX 4090|2x |TP2|MiniMax-H3|DiT|VAE|=|36|0|1.5|,|-|~|<=| GiB|GB|(|)|/|;|resident|layerwise|denoise|decode| s|NFE|yes|"
    'cap|mmap|32 GB host|2026-08|\u0663|\u00b2|\x00|\u2028|"|\n|\r|1344x768|f|nan|999999999999999999999|'
    "10 resident layers beat 0".split("|")
)
CELLS = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=8).map("".join))


@given(st.dictionaries(st.sampled_from(COLUMNS), CELLS, max_size=5))
def test_any_text_in_any_cell_gives_observations_or_a_reason(changes):
    columns = list({**GOOD, **changes})
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, columns)
    writer.writeheader()
    writer.writerow({**GOOD, **changes})
    for row in parse_rows(file.getvalue(), "runs.csv").rows:
        with contextlib.suppress(RowRefusedError):
            assert all(isinstance(observation, Observation) for observation in read_row(row).observations)


@given(st.text(max_size=400))
def test_any_text_behind_a_header_loses_no_good_row(text):
    header, good = ",".join(GOOD), ",".join(GOOD.values())
    table = parse_rows(f"{header}\n{good}\n{text}", "runs.csv")
    assert table.rows[0].cells["model"] == "MiniMax-H3"
