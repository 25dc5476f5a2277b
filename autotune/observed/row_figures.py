"""What was measured in a row, and on what of the request that depends. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.observed.component_words import find_picture_vae, list_denoisers, list_text_encoders
from autotune.observed.host_cells import StatedHost
from autotune.observed.latency_cells import StatedLatencies, invalidate, read_latencies
from autotune.observed.observation import Reason, Scope
from autotune.observed.peak_cells import StatedPeak, read_peak
from autotune.observed.quantities import shorten
from autotune.observed.refusal import RowRefusedError
from autotune.observed.row_subject import Subject
from autotune.observed.server_changes import find_invalid_times
from autotune.observed.server_names import Period

_RAN_OUT = re.compile(r"(?:yes|y|true|oom|1)\b", re.IGNORECASE)
_DID_NOT = re.compile(r"(?:(?:no|n|false|0)\b|-?$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured in a row; at least one figure.

    Attributes:
        subject: what the row is of.
        latencies: what was timed.
        peak: device memory.
        ran_out: whether device memory ran out.
    """

    subject: Subject
    latencies: StatedLatencies
    peak: StatedPeak
    ran_out: bool

    @property
    def unused(self) -> tuple[str, ...]:
        """Why figures of the row cannot be compared, one sentence each."""
        return tuple(text for text in (*self.latencies.dropped, self.peak.dropped) if text)

    @property
    def is_of_server(self) -> bool:
        """Whether the whole request or the whole process was observed, so that every component matters."""
        return (
            self.ran_out
            or (self.peak.peak is not None and not self.subject.working_memory_of)
            or any(latency.scope is Scope.REQUEST for latency in self.latencies.latencies)
        )

    @property
    def depends_on_steps(self) -> bool:
        """Whether the number of steps matters: not to a component outside the denoiser."""
        return self.is_of_server or any(
            set(latency.component.split("+")) & set(list_denoisers(self.subject.entry))
            for latency in self.latencies.latencies
            if latency.scope is not Scope.MOVE_DOWN
        )

    @property
    def depends_on_size(self) -> bool:
        """Whether pixels and frames matter: not to a text encoder, nor to a move of weights."""
        sizeless = set(list_text_encoders(self.subject.entry))
        return (
            self.is_of_server
            or bool(self.subject.working_memory_of)
            or any(
                latency.scope is not Scope.MOVE_DOWN and not set(latency.component.split("+")) <= sizeless
                for latency in self.latencies.latencies
            )
        )

    @property
    def depends_on_decoder(self) -> bool:
        """Whether the picture VAE matters."""
        vae = find_picture_vae(self.subject.entry)
        return self.is_of_server or any(vae in latency.component.split("+") for latency in self.latencies.latencies)


def read_figures(subject: Subject, cells: Mapping[str, str], period: Period, host: StatedHost) -> Figures:
    """The figures of the row with ``cells``.

    Raises:
        RowRefusedError: a figure is damaged, or none is left that can be compared.
    """
    ran_out = _read_ran_out(cells.get("oom", ""))
    is_sglang = subject.server.is_sglang
    latencies = read_latencies(
        subject.entry,
        subject.named,
        latency=cells.get("latency_s", ""),
        scope=cells.get("latency_scope", ""),
        notes=cells.get("notes", "") if is_sglang else "",
    )
    invalid = find_invalid_times(period, host) if is_sglang else ""
    if invalid:
        latencies = invalidate(latencies, invalid)
    peak = read_peak(
        cells.get("peak_vram", ""),
        cells.get("peak_unit", ""),
        is_sglang=is_sglang,
        activations_of=subject.working_memory_of,
    )
    figures = Figures(subject=subject, latencies=latencies, peak=peak, ran_out=ran_out)
    if not latencies.latencies and peak.peak is None and not ran_out:
        if figures.unused:
            raise RowRefusedError(Reason.NOT_EXPRESSIBLE, "; ".join(figures.unused))
        raise RowRefusedError(Reason.NO_FIGURE, "neither a latency nor a peak stands in the row: give one of them")
    return figures


def _read_ran_out(text: str) -> bool:
    if _RAN_OUT.match(text):
        return True
    if _DID_NOT.match(text):
        return False
    raise RowRefusedError(Reason.UNREADABLE, f"oom is {shorten(text)!r}: write yes or no")
