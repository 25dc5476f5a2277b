"""``plan.json``: a plan with its predictions, what they rest on, and the command that made it.

The document stands alone: it can be explained, exported and run without the program that made it. Its layout is
versioned, and unknown versions are refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runtime.document_checks import check_bytes, check_times
from runtime.documents import DocumentKind, encode_document, replace_file
from runtime.errors import PlanError, UnsupportedError
from runtime.model_spec import ModelSpec, RequestSpec
from runtime.plan import Plan
from runtime.prediction import Prediction
from runtime.target_summary import CapSummary, DeviceSummary, HostSummary

FORMAT = "layerstream-plan"
VERSION = 1


def is_tie(difference_s: float, difference_sd_s: float) -> bool:
    """Whether nobody can say which of two plans is faster: they differ by at most one standard deviation of that."""
    return abs(difference_s) <= difference_sd_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Another plan, or a bound, that the plan is compared with; placements are None for a bound.

    Attributes:
        difference_s: by how much it is slower than the plan; None for the plan itself, and where the spread is unknown.
        difference_sd_s: standard deviation of that, in which errors that both share cancel; repeated runs included.
    """

    name: str
    meaning: str
    latency_s: float
    charged_bytes: int
    fits: bool
    placements: dict[str, str] | None
    difference_s: float | None = None
    difference_sd_s: float | None = None

    def __post_init__(self) -> None:
        check_times(self.name, latency_s=self.latency_s, difference_sd_s=self.difference_sd_s or 0.0)
        check_bytes(self.name, self.charged_bytes)
        if not math.isfinite(self.difference_s or 0.0):
            raise PlanError(f"{self.name}: difference_s is {self.difference_s}; a difference of times is finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What a change outside the plan would give: best latency now and after it.

    ``difference_sd_s`` is the standard deviation of their difference, None where it is not known.
    """

    change: str
    now_s: float
    then_s: float
    difference_sd_s: float | None = None

    def __post_init__(self) -> None:
        check_times(self.change, now_s=self.now_s, then_s=self.then_s, difference_sd_s=self.difference_sd_s or 0.0)

    @property
    def gain_ratio(self) -> float:
        """Share of the latency that the change saves; negative when it costs."""
        return 1 - self.then_s / self.now_s if self.now_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningGain:
    """How much the best placement beats everything streamed in some setting: where tuning pays.

    ``difference_sd_s`` is the standard deviation of their difference, None where it is not known.
    """

    setting: str
    streamed_s: float
    best_s: float
    difference_sd_s: float | None = None

    def __post_init__(self) -> None:
        check_times(
            self.setting,
            streamed_s=self.streamed_s,
            best_s=self.best_s,
            difference_sd_s=self.difference_sd_s or 0.0,
        )

    @property
    def gain_ratio(self) -> float:
        """Share of the streamed latency that the best placement saves."""
        return 1 - self.best_s / self.streamed_s if self.streamed_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A switch outside the search, and what it would give.

    Attributes:
        switch: what to type, or what it is where this program has no option for it.
        same_output: whether the output stays the same, bit for bit.
        now_s, then_s: fastest plan without and with it, found with the same effort; None for what is not modelled.
        charged_bytes: what the plan with it would be charged; None for what is not modelled.
        flags: tokens that the server's command line needs for it.
        note: what it is, one sentence.
    """

    switch: str
    same_output: bool
    now_s: float | None = None
    then_s: float | None = None
    charged_bytes: int | None = None
    flags: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if not self.switch:
            raise PlanError("an advice names its switch")
        figures = (self.now_s, self.then_s, self.charged_bytes)
        if figures == (None, None, None):
            return
        if None in figures:
            raise PlanError(f"{self.switch}: times and bytes are known together or not at all")
        for time_s in (self.now_s, self.then_s):
            if time_s is None or not (math.isfinite(time_s) and time_s >= 0):
                raise PlanError(f"{self.switch}: {time_s} s is no time, which is finite and not negative")
        check_bytes(self.switch, self.charged_bytes or 0)

    @property
    def gain_ratio(self) -> float | None:
        """Share of the latency that the switch saves, negative when it costs; None for what is not modelled."""
        if self.now_s is None or self.then_s is None:
            return None
        return 1 - self.then_s / self.now_s if self.now_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """Everything about one plan.

    Attributes:
        created: ISO 8601 time with offset.
        program: name and version of what wrote it.
        command: the exact command.
        model, request, workload, device, host, cap: what was planned for.
        plan, prediction: the decision and what it is expected to do.
        findings: conclusions, the most important first.
        comparisons, what_ifs, tuning_gains: what the findings rest on.
        assumptions: what was assumed; not_modelled: what the figures leave out.
        profile_id: digest of the facts that the prediction used.
        variant: in which of its catalog's other ways the model runs; empty for as released.
        advice: switches outside the search, with what each would give.
        tp_size: ranks of tensor parallelism; model, cap and prediction are of one of them, ``host`` is of all.
    """

    format: Literal["layerstream-plan"] = "layerstream-plan"
    version: Literal[1] = 1
    created: str
    program: str
    command: str
    workload: dict[str, int | str]
    device: DeviceSummary
    host: HostSummary
    cap: CapSummary
    plan: Plan
    prediction: Prediction
    findings: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    what_ifs: tuple[WhatIf, ...]
    tuning_gains: tuple[TuningGain, ...]
    assumptions: tuple[str, ...]
    not_modelled: tuple[str, ...]
    profile_id: str
    model: ModelSpec
    request: RequestSpec
    variant: str = ""
    advice: tuple[Advice, ...] = ()
    tp_size: int = 1

    def __post_init__(self) -> None:
        if self.tp_size < 1:
            raise PlanError(f"tp_size is {self.tp_size}: at least one rank runs a plan")
        self.plan.check_fits_model(self.model)
        self.request.check_fits_model(self.model)
        counts = ("width", "height", "frames", "steps", "prompt_tokens", "batch")
        bad = [name for name in counts if not isinstance(self.workload.get(name), int) or int(self.workload[name]) < 1]
        if bad or not isinstance(self.workload.get("recipe"), str):
            raise PlanError(f"the workload lacks {', '.join(bad or ['recipe'])}")
        if not re.fullmatch(r"[a-z]+(@[0-9.]+)?", self.plan.engine):
            raise PlanError(f"{self.plan.engine!r} is no engine's name")


PLAN_KIND = DocumentKind(
    noun="plan",
    format=FORMAT,
    version=VERSION,
    holds=PlanDocument,
    error=PlanError,
    remedy="make the plan again with autotune search",
)


def check_one_card(document: PlanDocument) -> None:
    """Refuse to execute a plan of several cards.

    Raises:
        UnsupportedError: it is one.
    """
    if document.tp_size > 1:
        raise UnsupportedError(
            f"the plan is for {document.tp_size} GPUs in tensor parallel (--tp-size), and plans are executed on one: "
            "export it to a server (autotune export), or plan without --tp-size"
        )


def load_plan(path: str | Path) -> PlanDocument:
    """Read ``plan.json``.

    Raises:
        PlanError: the file cannot be read, is not a plan, or is of a version that this program does not know.
    """
    return PLAN_KIND.load(path)


def save_plan(document: PlanDocument, path: str | Path) -> None:
    """Write ``document``; an existing file is replaced whole or not at all.

    Raises:
        PlanError: the file cannot be written.
    """
    try:
        replace_file(path, encode_document(document))
    except OSError as error:
        raise PlanError(f"cannot write the plan {path}: {error.strerror or error}") from error
