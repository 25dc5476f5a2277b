"""What a session reports, in the three forms in which it is read: text, JSON and data frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from runtime.devices.protocol import Device
from runtime.documents import DocumentKind
from runtime.errors import InputError
from runtime.host_store import HostUse
from runtime.measurement import PhaseMeasurement, RequestMeasurement
from runtime.prediction import Prediction
from runtime.report_data import FORMAT, VERSION, ReportData
from runtime.report_text import render_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport(ReportData):
    """See ``ReportData`` for the figures."""

    def to_text(self) -> str:
        """For people: latencies, uses and what binds them, stalls, device and host memory beside the prediction."""
        return render_text(self)

    def to_json(self) -> bytes:
        """All of it, as ``from_json`` reads it."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def from_json(cls, text: bytes) -> SessionReport:
        """The report in ``text``.

        Raises:
            InputError: it is no report, or of a version that this program does not know.
        """
        kind = DocumentKind(
            noun="session report",
            format=FORMAT,
            version=VERSION,
            holds=cls,
            error=InputError,
            remedy="write it anew with SessionReport.to_json",
        )
        return kind.decode(text, "this text")

    def frames(self) -> dict[str, pd.DataFrame]:
        """Data frames ``requests``, ``uses``, ``passes``, ``layers``, ``copies`` and ``phases``; needs pandas."""
        from runtime.report_frames import make_frames  # noqa: PLC0415 - pandas is loaded only where it is wanted

        return make_frames(self)


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
        is_emulated=device.name == "emulated",
        engine=executable_engine,
        placements=placements,
        prediction=prediction,
        requests=requests,
        phases=phases,
        host=host,
    )
