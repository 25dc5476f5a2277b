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
# # How much VRAM is worth giving to a model, and on which card?
#
# Question: when weights stream from host memory, how much faster does a request of FLUX.1-dev (1024x1024, 50 steps) get
# with more VRAM, and does the card decide that?
#
# No GPU is needed: all figures are estimated from the model's real classes and the cards' datasheets.

# %%
import pandas as pd
from IPython.display import Image, Markdown

import autotune
from reports.figures.overlay import draw_overlay, overlay_series
from reports.figures.png import encode_png
from reports.figures.tradeoff import draw_tradeoff, tradeoff_series

GIB = 2**30
MODEL = "FLUX.1-dev"
CARDS = {"rtx-3060-12g": "RTX 3060", "rtx-4090": "RTX 4090", "rtx-5090": "RTX 5090", "h100": "H100"}
# One layer ahead, no study, no advice: enough for curves, and quick.
QUICK = {"model": MODEL, "max_prefetch": 1, "trials": 0, "advice": False}

# %% [markdown]
# ## One card: what a search knows about 24 GiB of an RTX 4090
#
# Every corner of the curve is the fastest plan in that much memory. The dotted line is the bound: compute alone.

# %%
run = autotune.search(device="rtx-4090", vram_cap="24GiB", **QUICK)
series = tradeoff_series(run.data)
Image(encode_png(draw_tradeoff(run.data)), alt=series.finding)

# %% [markdown]
# ## Four cards: the whole curve of each
#
# A dot marks the least memory in which anything runs; a curve ends where the card's memory does, at 32 GiB at the most.

# %%
runs = {name: autotune.search(device=card, vram_cap="32GiB", name=name, **QUICK) for card, name in CARDS.items()}
curves = {curve.name: curve for curve in overlay_series([run.data for run in runs.values()])}
gains = {name: 1 - curve.points[-1].latency_s / curve.points[0].latency_s for name, curve in curves.items()}
finding = "VRAM buys " + ", ".join(f"{100 * gain:.1f} % on an {name}" for name, gain in gains.items())
Image(encode_png(draw_overlay([run.data for run in runs.values()], finding)), alt=finding)

# %% [markdown]
# Seconds a request under several caps; empty where nothing fits, or where the card has no such memory.

# %%
caps_gib = [6, 8, 12, 16, 20, 24, 32]
table = pd.DataFrame(index=[f"{cap} GiB" for cap in caps_gib], columns=list(curves), data="")
for name, curve in curves.items():
    for cap in caps_gib:
        # A 24 GiB card leaves a little less to a process.
        latency_s = curve.latency_within(cap * GIB) if cap * GIB < curve.cap_bytes + GIB else None
        table.loc[f"{cap} GiB", name] = "" if latency_s is None else f"{latency_s:.1f}"
table

# %% [markdown]
# Why the cards differ: how long a pass of the transformer computes, and how long its weights take over the link. The
# longer copies take beside compute, the more a layer saves that stays on the card.

# %%
rows = {}
for name, run in runs.items():
    transformer = next(part for part in run.plan.model.components if part.name == "transformer")
    size_bytes = sum(layer.run_bytes for stack in transformer.stacks for layer in stack.layers)
    use = next(use for use in run.plan.prediction.uses if use.component == "transformer")
    copy_s = size_bytes / run.plan.device.figures["pinned_bytes_per_s"].value
    compute_s = use.compute_s / use.passes[0].count
    rows[name] = {"computes (s)": compute_s, "copies (s)": copy_s, "copies / computes": copy_s / compute_s}
passes = pd.DataFrame(rows).T.join(pd.Series(gains, name="VRAM saves"))
passes.round(3)

# %% [markdown]
# ## Answer

# %%
ratios = passes["copies / computes"]
assert (ratios.rank() == passes["VRAM saves"].rank()).all(), "the more copies weigh, the more memory buys"
least, most = ratios.idxmin(), ratios.idxmax()
ends = (curves[most].points[0], curves[most].points[-1])
first, last = (f"{point.latency_s:.1f} s in {point.charged_bytes / GIB:.1f} GiB" for point in ends)
Markdown(
    f"**The longer a pass copies beside what it computes, the more VRAM buys, and the card decides that: "
    f"{100 * gains[least]:.1f} % on an {least}, where copies take {ratios[least]:.2f} of the compute, and "
    f"{100 * gains[most]:.0f} % on an {most}, where they take {ratios[most]:.1f} times as long "
    f"({first}, {last}).**"
)
