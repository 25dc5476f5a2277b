"""Calibrates a set-up from observed runs, and says what that means for runs that were not used and for other plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autotune.fidelity.calibrated_profile import build_calibrated_profile
from autotune.fidelity.calibration import Calibration, calibrate
from autotune.fidelity.case import Case, Ground
from autotune.fidelity.figures import list_peaks, list_times, predict_peaks_bytes, predict_times_s
from autotune.fidelity.forecast import forecast_residents
from autotune.fidelity.next_run import suggest_runs
from autotune.fidelity.passes import forwards_per_step, with_forwards
from autotune.fidelity.prior import derive_uncertainty, find_own_uncertainty
from autotune.fidelity.report import CalibrationReport, HeldOut
from autotune.fidelity.unstated_request import doubt_request
from autotune.model_facts import ModelFacts
from autotune.observed.observation import ObservedRuns, Refused
from autotune.profile import Profile
from autotune.uncertainty import Uncertainty
from autotune.workflows.observed_runs import LoadFacts, build_cases
from autotune.workload import Workload
from runtime.engines.registry import DEFAULT_ENGINE
from runtime.errors import InputError
from runtime.target_summary import DeviceSummary

Notify = Callable[[str], None]


def calibrate_runs(
    runs: ObservedRuns,
    load_facts: LoadFacts,
    *,
    only: Sequence[str] = (),
    workload: Workload | None = None,
    profile: Profile | None = None,
    engine: str = DEFAULT_ENGINE,
    notify: Notify = lambda _: None,
) -> CalibrationReport:
    """Fit ``runs``, all of one model and device.

    Args:
        runs: what was observed.
        load_facts: reads the model.
        only: names of the runs to fit; the others are predicted and compared. Empty for all.
        workload: request of the profile that comes out; None for that of the first run.
        profile: what is calibrated instead of datasheet figures, such as measured ones.
        engine: whose behaviour is simulated.
        notify: told of each step.

    Raises:
        InputError: a name that no run has, or no run that can be used.
    """
    notify("reading the model")
    built = build_cases(runs.observations, load_facts, profile, engine)
    refused = (*runs.refused, *built.refused)
    fitted, held_out = _choose(built.cases, only)
    if not fitted:
        raise InputError(_nothing_left(refused, only))
    first = fitted[0]
    setup = first.observation.setup
    ranks = sorted({case.observation.setup.tp_size for case in fitted})
    if len(ranks) > 1:
        raise InputError(
            f"the runs are of {' and '.join(map(str, ranks))} GPUs, whose links and compute differ: fit those of one "
            "number with --only"
        )
    device = built.devices[setup.device]
    if profile is not None and (profile.device.name, profile.facts.tp_size) != (setup.device, setup.tp_size):
        raise InputError(
            f"--profile is of {profile.facts.tp_size} x {profile.device.name}, and the runs are of {setup.tp_size} x "
            f"{setup.device}: give a profile of that card, or none"
        )
    prior = _choose_prior(fitted, profile, device)
    notify("fitting")
    calibration = calibrate(fitted, prior)
    notify("looking at what the runs leave open")
    ground = _ground_of(first, workload, load_facts)
    base = Profile(facts=ground.facts, rates=ground.rates, context_bytes=ground.context_bytes, device=device)
    names = [case.observation.name for case in fitted]
    calibrated = build_calibrated_profile(base, calibration, names)
    return CalibrationReport(
        device=device,
        engine=engine,
        runs=tuple(case.observation for case in fitted),
        held_out_runs=tuple(case.observation for case in held_out),
        calibration=calibration,
        layer_s=_list_layer_times(calibrated.facts),
        held_out=tuple(_hold_out(held_out, calibration)),
        forecasts=forecast_residents(first, calibration),
        next_runs=suggest_runs(fitted, calibration),
        refused=refused,
        notes=(*runs.notes, *_list_notes(fitted, held_out)),
        profile=calibrated,
    )


def _choose_prior(fitted: Sequence[Case], profile: Profile | None, device: DeviceSummary) -> Uncertainty:
    """What is known of the factors before: what the profile says where all runs are predicted from its own facts."""
    ground = fitted[0].ground
    found = [find_own_uncertainty(profile, case.ground.facts, device.name) for case in fitted]
    if found[0] is not None and all(item is not None for item in found):
        return found[0]
    prior = derive_uncertainty(ground.facts, ground.rates, device)
    return doubt_request(prior, [case.observation for case in fitted])


def _choose(cases: Sequence[Case], only: Sequence[str]) -> tuple[list[Case], list[Case]]:
    names = {case.observation.name for case in cases}
    if missing := [name for name in only if name not in names]:
        raise InputError(
            f"--only {', '.join(missing)}: no usable run has that name; there are {_shorten(sorted(names))}"
        )
    fitted = [case for case in cases if not only or case.observation.name in only]
    return fitted, [case for case in cases if only and case.observation.name not in only]


def _shorten(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12]) or "none"
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown


def _nothing_left(refused: Sequence[Refused], only: Sequence[str]) -> str:
    reasons = "; ".join(f"{row.name}: {row.text}" for row in refused[:5])
    more = f"; and {len(refused) - 5} more" if len(refused) > 5 else ""
    why = f" ({reasons}{more})" if refused else ""
    return f"no observed run can be fitted{why}: give runs of one model and card, each with a latency or a peak"


def _ground_of(case: Case, workload: Workload | None, load_facts: LoadFacts) -> Ground:
    setup = case.observation.setup
    if workload is None or workload == case.ground.facts.workload:
        return case.ground
    if setup.tp_size > 1:
        raise InputError("the profile of ranks is of the runs' own request: leave out --width, --height and the like")
    facts = load_facts(setup.model, workload, setup.variant or None)
    return replace(case.ground, facts=with_forwards(facts, forwards_per_step(case.ground.facts)))


def _hold_out(cases: Sequence[Case], calibration: Calibration) -> list[HeldOut]:
    found = []
    for figures, predict in ((list_times(cases), predict_times_s), (list_peaks(cases), predict_peaks_bytes)):
        before, after = predict(cases, {}), predict(cases, calibration.values)
        for figure, predicted, calibrated in zip(figures, before.tolist(), after.tolist(), strict=True):
            found.append(
                HeldOut(
                    run=figure.run,
                    what=figure.what,
                    unit=figure.unit,
                    observed=figure.observed,
                    before=predicted,
                    after=calibrated,
                )
            )
    order = {case.observation.name: index for index, case in enumerate(cases)}
    return sorted(found, key=lambda item: order[item.run])


def _list_layer_times(facts: ModelFacts) -> dict[str, float]:
    found: dict[str, float] = {}
    for use in facts.work:
        for group in use.groups:
            for stack, layers in group.layers.items():
                if layers:
                    found[f"{use.component}.{stack}"] = sum(layer.measured_s for layer in layers) / len(layers)
    return found


def _list_notes(fitted: Sequence[Case], held_out: Sequence[Case]) -> list[str]:
    """What was assumed of runs and is odd about them; what holds for several is said once."""
    names_of: dict[str, list[str]] = {}
    for case in (*fitted, *held_out):
        run = case.observation
        ended = ("it ran out of device memory: its peak is what it had then, and is not fitted",) * run.ran_out
        for text in (*(f"assumed: {text}" for text in run.assumed), *run.caveats, *ended):
            names_of.setdefault(text, []).append(run.name)
    return [f"{', '.join(names)}: {text}" for text, names in names_of.items()]
