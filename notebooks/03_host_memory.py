# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What do 32, 64 and 128 GiB of host memory change?
#
# Question: 66 GB of diffusion transformer, 51 GB of text encoder and 5 GB of VAE of MiniMax-H3 wait in host memory
# while they stream. What happens on hosts that cannot hold them?
#
# An RTX 4090 with a cap of 24 GiB, 864x480 with 124 frames in 21 steps; weights that fit nowhere are read from the
# checkpoint file again on every pass, at 3.4 GB/s. Estimated from the model's classes and datasheets.

# %%
import pandas as pd
from IPython.display import Image, Markdown

import autotune
from reports.figures.host import draw_host, host_series
from reports.figures.png import encode_png
from reports.figures.timeline import draw_timeline, timeline_series

GIB = 2**30
HOSTS = ("32GiB", "64GiB", "128GiB")
REQUEST = {"model": "H3", "device": "rtx-4090", "vram_cap": "24GiB", "width": 864, "height": 480, "steps": 21}
QUICK = {"max_prefetch": 1, "trials": 0}

# %% [markdown]
# ## The fastest plan on each host
#
# The server decides where every streamed layer waits: `pinned` memory copies fast and beside compute, `pageable` memory
# stops compute while it is copied, and `mapped` layers are read from the file. Sizes in GiB; what is read is of one
# request.

# %%
runs = {
    host: autotune.search(host_memory=host, advice=host == "64GiB", name=host, **REQUEST, **QUICK) for host in HOSTS
}


def describe_host(plan):
    """Where the weights of a plan wait, and what a request takes."""
    prediction = plan.prediction
    streamed = next(item for item in plan.comparisons if item.name == "streamed")
    return {
        "plan (s)": prediction.latency_s,
        "all streamed (s)": streamed.latency_s,
        "pinned": sum(stack.pinned_bytes for stack in prediction.hosting) / GIB,
        "pageable": sum(stack.pageable_bytes for stack in prediction.hosting) / GIB,
        "mapped": sum(stack.mapped_bytes for stack in prediction.hosting) / GIB,
        "read from file": prediction.disk_read_bytes / GIB,
        "VRAM": prediction.peak.charged_bytes / GIB,
    }


table = pd.DataFrame({host: describe_host(run.plan) for host, run in runs.items()}).T
table.round(1)

# %% [markdown]
# ## More hosts
#
# Hollow points read from disk. This curve looks at fewer plans than the table above, and improves each.

# %%
series = host_series(runs["64GiB"].data)
Image(encode_png(draw_host(runs["64GiB"].data)), alt=series.finding)

# %% [markdown]
# ## Where the time goes
#
# Passes of the diffusion transformer with 32 and with 128 GiB. A layer that lies in the file is read, then copied, then
# computed with; all three go on at the same time for different layers.

# %%
series_of = {host: timeline_series(run.data) for host, run in runs.items()}
Image(encode_png(draw_timeline(runs["32GiB"].data)), alt=series_of["32GiB"].finding)

# %%
Image(encode_png(draw_timeline(runs["128GiB"].data)), alt=series_of["128GiB"].finding)

# %% [markdown]
# What the planner does about it: how many layers of each component stay on the card.

# %%
pd.DataFrame(
    {host: {item.component: item.describe() for item in run.plan.plan.placements} for host, run in runs.items()}
)

# %% [markdown]
# ## Answer

# %%
latencies, reads = table["plan (s)"], table["read from file"]
saved = 1 - latencies / table["all streamed (s)"]
assert latencies.is_monotonic_decreasing, "more host memory makes no plan slower"
assert reads.is_monotonic_decreasing, "more host memory reads no more from the file"
told = ", ".join(
    f"{latencies[host]:.0f} s with {host.removesuffix('GiB')} GiB ({reads[host]:.0f} GiB read)" for host in HOSTS
)
Markdown(
    f"**Host memory decides how much of the model is read from its file on every request: {told}; "
    f"more than {series.enough.host_bytes / GIB:.0f} GiB makes no plan faster, and planning saves "
    f"{100 * saved['32GiB']:.0f} % of a request with 32 GiB but {100 * saved['128GiB']:.0f} % with 128 GiB.**"
)
