"""Runs of one card and of several ranks are not one set-up."""

from dataclasses import replace

import pytest
from builders import build_plan, kept, streamed
from calibration_builders import build_ground, build_observation

from autotune.fidelity.case import Case
from autotune.observed.observation import ObservedLatency, ObservedRuns, Scope
from autotune.workflows import calibration
from autotune.workflows.observed_runs import BuiltCases
from runtime.errors import InputError


def test_runs_of_different_numbers_of_gpus_are_not_fitted_together(monkeypatch):
    ground = build_ground()
    plan = build_plan(kept("text_encoder"), streamed("transformer"), kept("vae"))
    latency = ObservedLatency(seconds=1.0, scope=Scope.REQUEST)
    runs = [build_observation(ground, f"run {count}", latencies=(latency,)) for count in (1, 2)]
    runs[1] = replace(runs[1], setup=replace(runs[1].setup, tp_size=2))
    built = BuiltCases(cases=tuple(Case(run, plan, ground) for run in runs), refused=(), devices={"toy": None})
    monkeypatch.setattr(calibration, "build_cases", lambda *_: built)
    with pytest.raises(InputError, match=r"1 and 2 GPUs.*--only"):
        calibration.calibrate_runs(ObservedRuns(observations=tuple(runs)), lambda *_: ground.facts)
