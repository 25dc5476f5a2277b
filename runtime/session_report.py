"""What a session reports: every request's measurement, device and host bytes, and the prediction beside them."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.devices.protocol import Device
from runtime.host_store import HostUse
from runtime.measurement import PhaseMeasurement, RequestMeasurement
from runtime.plan_document import Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """All requests of a session."""

    device: str
    engine: str
    placements: dict[str, str]
    prediction: Prediction | None
    requests: tuple[RequestMeasurement, ...]
    phases: tuple[PhaseMeasurement, ...]
    host: HostUse


def build_report(
    *,
    device: Device,
    executable_engine: str,
    placements: dict[str, str],
    prediction: Prediction | None,
    requests: tuple[RequestMeasurement, ...],
    phases: tuple[PhaseMeasurement, ...],
    host: HostUse,
) -> SessionReport:
    """Put a report together."""
    return SessionReport(
        device=device.name,
        engine=executable_engine,
        placements=placements,
        prediction=prediction,
        requests=requests,
        phases=phases,
        host=host,
    )
