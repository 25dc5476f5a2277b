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
# # When does it matter which layers stay on the card?
#
# Question: a stack of layers keeps r of them on the card and streams the rest on every pass. Policy `leading` keeps the
# first r, `strided` spreads them evenly: the same bytes, another schedule. When is one faster than the other, and why?
#
# FLUX.1-dev, 1024x1024 in 50 steps, estimated from the model's classes and the cards' datasheets.

# %%
import pandas as pd
from IPython.display import Image, Markdown

import autotune
from reports.figures.overlay import draw_overlay, overlay_series
from reports.figures.png import encode_png
from reports.figures.timeline import draw_timeline, timeline_series
from runtime.timeline import Lane

GIB = 2**30
CARDS = {"rtx-3060-12g": "RTX 3060", "rtx-4090": "RTX 4090", "rtx-5090": "RTX 5090", "h100": "H100"}
POLICIES = ("leading", "strided")
QUICK = {"model": "FLUX.1-dev", "vram_cap": "32GiB", "max_prefetch": 1, "trials": 0, "advice": False}

# %% [markdown]
# ## Equal memory, both policies
#
# Everything else is searched freely under each policy, so a gap between the curves is the policy's alone.

# %%
runs = {
    (name, policy): autotune.search(
        device=card, fix=[f"transformer.policy={policy}"], name=f"{name}, {policy}", **QUICK
    )
    for card, name in CARDS.items()
    for policy in POLICIES
}


def compare_policies(name):
    """Memory in GiB, seconds of both policies there, and the share that strided saves, where that is most."""
    leading, strided = overlay_series([runs[name, policy].data for policy in POLICIES])
    sizes = sorted({point.charged_bytes for curve in (leading, strided) for point in curve.points})
    pairs = [(size, leading.latency_within(size), strided.latency_within(size)) for size in sizes]
    found = [(size / GIB, one, other, 1 - other / one) for size, one, other in pairs if one and other]
    return max(found, key=lambda row: row[-1])


def time_pass(name):
    """Seconds that a pass of the transformer computes, and that its weights take over the link."""
    plan = runs[name, "strided"].plan
    transformer = next(part for part in plan.model.components if part.name == "transformer")
    size_bytes = sum(layer.run_bytes for stack in transformer.stacks for layer in stack.layers)
    use = next(use for use in plan.prediction.uses if use.component == "transformer")
    return use.compute_s / use.passes[0].count, size_bytes / plan.device.figures["pinned_bytes_per_s"].value


columns = ["at (GiB)", "leading (s)", "strided (s)", "strided saves"]
gaps = pd.DataFrame({name: dict(zip(columns, compare_policies(name), strict=True)) for name in CARDS.values()}).T
gaps.insert(0, "copies / computes", [copy_s / compute_s for compute_s, copy_s in map(time_pass, CARDS.values())])
gaps.round(3)

# %%
shown = gaps["strided saves"].idxmax()
finding = (
    f"{shown}: at {gaps.loc[shown, 'at (GiB)']:.1f} GiB, strided takes "
    f"{gaps.loc[shown, 'strided (s)']:.1f} s instead of {gaps.loc[shown, 'leading (s)']:.1f} s"
)
Image(encode_png(draw_overlay([runs[shown, policy].data for policy in POLICIES], finding)), alt=finding)

# %% [markdown]
# ## Why: one pass with the same number of resident layers
#
# 19 layers of each stack stay on the card (all of the first stack, half of the second) and one is fetched ahead. With
# `leading` all copies come at the end of the pass, with `strided` each has two layers of compute to hide behind.

# %%
card = next(card for card, name in CARDS.items() if name == shown)
knobs = ("transformer.resident=19", "transformer.prefetch=1")
halves = {
    policy: autotune.search(device=card, fix=[*knobs, f"transformer.policy={policy}"], name=policy, **QUICK)
    for policy in POLICIES
}
steady = {policy: timeline_series(run.data).passes[-1] for policy, run in halves.items()}
Image(encode_png(draw_timeline(halves["leading"].data)), alt="Passes with the first layers of each stack resident")

# %%
Image(encode_png(draw_timeline(halves["strided"].data)), alt="Passes with resident layers spread over each stack")

# %%
lanes = pd.DataFrame(
    {
        policy: {
            "pass (s)": found.duration_s,
            "compute works (s)": found.busy_s(Lane.COMPUTE),
            "link works (s)": found.busy_s(Lane.H2D),
            "link idles (s)": found.duration_s - found.busy_s(Lane.H2D),
            "compute waits (s)": found.waiting_s,
        }
        for policy, found in steady.items()
    }
)
lanes.round(4)

# %% [markdown]
# ## Answer

# %%
idle = lanes.loc["link idles (s)"] / lanes.loc["pass (s)"]
waits = lanes.loc["compute waits (s)"] / lanes.loc["pass (s)"]
few = gaps["strided saves"].idxmin()
assert idle["leading"] > idle["strided"], "leading leaves the link idle"
assert few == gaps["copies / computes"].idxmin(), "where copies are hidden, nothing is won"
Markdown(
    f"**The policy matters where copying weighs against computing: at equal memory strided saves up to "
    f"{100 * gaps.loc[shown, 'strided saves']:.0f} % on an {shown} and {100 * gaps.loc[few, 'strided saves']:.1f} % on "
    f"an {few}, because residents that lie together leave the link idle while they run "
    f"({100 * idle['leading']:.0f} % of a pass, then compute waits for {100 * waits['leading']:.0f} %), and spread "
    f"ones hide the copies between them ({100 * idle['strided']:.0f} % idle, {100 * waits['strided']:.0f} % waits).**"
)
