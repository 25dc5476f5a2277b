"""The figures of a session's report: every request's measurement, device and host bytes, the prediction beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from runtime.host_store import HostUse
from runtime.measurement import CopyMeasurement, PhaseMeasurement, RequestMeasurement, UseMeasurement
from runtime.prediction import Prediction

FORMAT = "layerstream-report"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """All requests of a session.

    Attributes:
        device: its name.
        is_emulated: whether times are those of an emulated device, not of a card.
        engine, placements: of the plan; placements in words, by component.
        prediction: what was predicted for it; None when nothing was.
        requests: in order; the first one after load differs from all later ones.
        phases: device bytes phase by phase, from load on; later requests repeat the names of their phases.
        host: host memory.
    """

    format: Literal["layerstream-report"] = "layerstream-report"
    version: Literal[1] = 1
    device: str
    is_emulated: bool
    engine: str
    placements: dict[str, str]
    prediction: Prediction | None
    requests: tuple[RequestMeasurement, ...]
    phases: tuple[PhaseMeasurement, ...]
    host: HostUse

    @property
    def later(self) -> tuple[RequestMeasurement, ...]:
        """All requests but the first one."""
        return self.requests[1:]

    @property
    def typical(self) -> RequestMeasurement | None:
        """The later request of median latency (the faster of two); the first if there is no other."""
        ordered = sorted(self.later or self.requests, key=lambda request: request.latency_s)
        return ordered[(len(ordered) - 1) // 2] if ordered else None

    def peak_phases(self) -> dict[str, PhaseMeasurement]:
        """Every phase by its name, in the order of life, with the peaks of all requests that had it."""
        found: dict[str, PhaseMeasurement] = {}
        for phase in self.phases:
            known = found.get(phase.phase)
            found[phase.phase] = phase if known is None else _join_phases(known, phase)
        return found

    def scaled(self, byte_scale: int) -> Self:
        """The report of stand-ins of which each byte counts as ``byte_scale``.

        Multiplies what a session counts itself: bytes of copies and of host memory. Device memory is counted by the
        device, which scales it already.
        """
        host = replace(
            self.host,
            **{
                name: getattr(self.host, name) * byte_scale
                for name in HostUse.__dataclass_fields__
                if name.endswith("_bytes")
            },
        )
        return replace(self, requests=tuple(_scale_request(one, byte_scale) for one in self.requests), host=host)


def _join_phases(one: PhaseMeasurement, other: PhaseMeasurement) -> PhaseMeasurement:
    reserved = [size for size in (one.reserved_bytes, other.reserved_bytes) if size is not None]
    return PhaseMeasurement(
        phase=one.phase,
        peak_weight_bytes=max(one.peak_weight_bytes, other.peak_weight_bytes),
        peak_activation_bytes=max(one.peak_activation_bytes, other.peak_activation_bytes),
        peak_total_bytes=max(one.peak_total_bytes, other.peak_total_bytes),
        live_weight_bytes=max(one.live_weight_bytes, other.live_weight_bytes),
        reserved_bytes=max(reserved, default=None),
    )


def _scale_request(request: RequestMeasurement, byte_scale: int) -> RequestMeasurement:
    def scale_copy(copy: CopyMeasurement) -> CopyMeasurement:
        return replace(copy, size_bytes=copy.size_bytes * byte_scale)

    def scale_use(use: UseMeasurement) -> UseMeasurement:
        return replace(use, copied_bytes={kind: size * byte_scale for kind, size in use.copied_bytes.items()})

    return replace(request, uses=tuple(map(scale_use, request.uses)), copies=tuple(map(scale_copy, request.copies)))
