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
# # How far can the predictions be trusted?
#
# Question: how close do predictions come to what others have measured on real cards, and does an executed plan do what
# its prediction says?
#
# Two different things: the first tests the figures (rates, efficiencies, operation counts), the second the schedule and
# the bytes. Nothing here is fitted to the measurements unless it says *calibrated*.

# %%
import pandas as pd
from IPython.display import Image, Markdown

import autotune
from reports.figures.png import encode_png
from reports.figures.predicted import draw_predicted, predicted_series
from reports.figures.scatter import draw_scatter

MEASUREMENTS = "../tests/data/public_measurements.csv"

# %% [markdown]
# ## What others measured
#
# The table has runs that people published, with their sources. Each run that names model, card, request and settings is
# predicted with that card's datasheet; the others are left out, with the reason. Grey bands: within 10 and 30 % for
# latencies, 5 % for peaks.

# %%
validation = autotune.validate(MEASUREMENTS)
singles = validation.select(single=True)
latency, peak = validation.summarize(single=True)
Image(encode_png(draw_scatter(singles, latency)), alt="Predicted over measured latencies of runs on one card")

# %%
Image(encode_png(draw_scatter(singles, peak)), alt="Predicted over measured peaks of device memory on one card")

# %% [markdown]
# Errors before calibrating, model by model: positive means slower or larger than measured.

# %%
frame = pd.DataFrame(
    [{"family": item.family, "kind": str(item.kind), "error (%)": 100 * item.error_ratio} for item in singles]
)
errors = frame.groupby(["family", "kind"])["error (%)"]
errors.agg(["count", "min", "median", "max"]).round(0).astype(int)

# %% [markdown]
# What could not be compared, and why.

# %%
pd.Series({str(reason): count for reason, count in validation.refusals.items()}, name="runs").to_frame()

# %% [markdown]
# ## What a plan does when it is executed
#
# The emulated accelerator has the card's memory as a hard cap and its rates, and performs every copy and every layer of
# the plan on a virtual clock; nothing of the prediction's replay is used.

# %%
PLANS = {
    "FLUX.1-dev": {"device": "rtx-4090", "vram_cap": "16GiB"},
    "Z-Image-Turbo": {"device": "h100", "vram_cap": "12GiB"},
    "Wan2.1-T2V-1.3B": {"device": "rtx-3060-12g", "host_memory": "16GiB"},
}
executed = {
    model: autotune.execute(autotune.search(model=model, max_prefetch=1, trials=0, advice=False, **wish), repeats=1)
    for model, wish in PLANS.items()
}
series = predicted_series(executed["FLUX.1-dev"].data)
Image(encode_png(draw_predicted(executed["FLUX.1-dev"].data)), alt=series.finding)


# %%
def find_furthest(measurement):
    """The compared quantity that is furthest from its prediction."""
    return max((item for item in measurement.comparisons if item.ratio), key=lambda item: abs(item.ratio - 1))


furthest = {model: find_furthest(run.data.measurement) for model, run in executed.items()}
emulated = pd.DataFrame(
    {
        model: {
            "predicted (s)": run.plan.prediction.latency_s,
            "executed (s)": run.data.measurement.latency.median_s,
            "quantities": len(run.data.measurement.comparisons),
            "furthest off": furthest[model].quantity,
            "by (%)": abs(100 * (furthest[model].ratio - 1)),
        }
        for model, run in executed.items()
    }
).T
emulated.assign(**{name: emulated[name].astype(float).round(2) for name in ("predicted (s)", "executed (s)", "by (%)")})

# %% [markdown]
# Where they differ, the executor says why.

# %%
model = emulated["by (%)"].astype(float).idxmax()
Markdown(f"{model}: {executed[model].data.measurement.notes[-1]}.")

# %% [markdown]
# ## Answer

# %%
off = abs(emulated["executed (s)"] / emulated["predicted (s)"] - 1).max()
found = frame[frame.kind == "latency"]["error (%)"]
assert len(found) == latency.predicted.count, "the table and the picture show the same runs"
assert off < 0.005, "executed requests take what was predicted"
Markdown(
    f"**Of runs on one card, half of {latency.predicted.count} published latencies are predicted within "
    f"{100 * latency.predicted.median_ratio:.0f} % and half of {peak.predicted.count} published peaks within "
    f"{100 * peak.predicted.median_ratio:.0f} %, with nothing fitted to them ({(found < 0).sum()} latencies are "
    f"predicted too short, {(found > 0).sum()} too long), while executed requests take their predicted time within "
    f"{100 * off:.1f} %: what is uncertain is how fast a card is, not what a plan does.**"
)
