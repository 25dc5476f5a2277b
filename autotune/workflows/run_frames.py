"""The tables of a run folder as data frames; ``autotune.workflows.run_tables`` reads them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from autotune.exact import CurvePoint
from autotune.study_records import StudyResult
from autotune.workflows.run_tables import CURVE_COLUMNS, HOST_COLUMNS, TRIAL_COLUMNS
from reports.run_data import HostPoint
from reports.uses import list_use_rows
from runtime.measurement_document import MeasurementDocument
from runtime.plan import Plan
from runtime.plan_document import PlanDocument


def trials_frame(study: StudyResult | None, plan: Plan) -> pd.DataFrame:
    """One row per trial: in which run it was tried (``earlier`` ones come from the storage), what it scored."""
    study = study or StudyResult(records=(), evaluations=0, exhausted=False)
    names = [placement.component for placement in plan.placements]
    rows = [
        [
            run,
            record.number,
            record.origin,
            record.feasible,
            record.score.latency_s if record.score else None,
            record.score.charged_bytes if record.score else None,
            record.repeated,
            record.failure,
            *(record.plan.placement(name).describe() for name in names),
        ]
        for run, records in (("earlier", study.earlier), ("this", study.records))
        for record in records
    ]
    return _keep_integers(pd.DataFrame(rows, columns=[*TRIAL_COLUMNS, *names]), "charged_bytes")


def curve_frame(curve: tuple[CurvePoint, ...], document: PlanDocument) -> pd.DataFrame:
    """The trade-off curve, one row per corner, and whether it fits under the cap."""
    names = [placement.component for placement in document.plan.placements]
    rows = [
        [
            point.charged_bytes,
            point.latency_s,
            point.charged_bytes <= document.cap.effective_bytes,
            *(point.plan.placement(name).describe() for name in names),
        ]
        for point in curve
    ]
    return pd.DataFrame(rows, columns=[*CURVE_COLUMNS, *names])


def hosts_frame(points: Sequence[HostPoint]) -> pd.DataFrame:
    """The fastest plans on other hosts, one row per host; no latency where nothing fits."""
    rows = [[getattr(point, column) for column in HOST_COLUMNS] for point in points]
    return _keep_integers(pd.DataFrame(rows, columns=list(HOST_COLUMNS)), "charged_bytes")


def uses_frame(measurement: MeasurementDocument) -> pd.DataFrame:
    """What every use and component took, one row each."""
    frame = pd.DataFrame([asdict(row) for row in list_use_rows(measurement)])
    return _keep_integers(frame, "copied_bytes", "peak_bytes", "reserved_bytes")


def _keep_integers(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """``frame`` with whole numbers in ``columns``, of which some may be missing: else they would become floats."""
    return frame.astype(dict.fromkeys(columns, "Int64"))
