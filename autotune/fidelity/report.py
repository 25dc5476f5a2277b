"""What comes of calibrating, as one record. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.fidelity.calibration import Calibration
from autotune.fidelity.figures import Figure
from autotune.fidelity.forecast import Forecasts
from autotune.fidelity.next_run import NextRun
from autotune.observed.observation import Observation, Refused
from autotune.profile import Profile
from runtime.target_summary import DeviceSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut(Figure):
    """A figure of a run that was not used for the fit; ``before`` and ``after`` are predicted without and with it."""

    before: float
    after: float

    @property
    def error_ratio(self) -> float:
        """By how much the calibrated prediction is above what was observed."""
        return self.after / self.observed - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationReport:
    """What came of calibrating.

    Attributes:
        device: what the runs were made on.
        engine: whose behaviour is simulated.
        runs, held_out_runs: observations that were fitted, and those that were only compared.
        calibration: the fit.
        layer_s: stack -> calibrated seconds of one layer's compute, the mean over its layers.
        held_out: figures of the runs that were not fitted.
        forecasts: other numbers of resident layers.
        next_runs: for what the runs leave open, the run that would settle it.
        refused: what could not be used, and why.
        notes: what was assumed or is odd, one sentence each.
        profile: what plans can be made from.
    """

    device: DeviceSummary
    engine: str
    runs: tuple[Observation, ...]
    held_out_runs: tuple[Observation, ...]
    calibration: Calibration
    layer_s: dict[str, float]
    held_out: tuple[HeldOut, ...]
    forecasts: Forecasts
    next_runs: tuple[NextRun, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...]
    profile: Profile
