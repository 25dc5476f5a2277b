"""What became of a plan on a server: single checks in the order in which one causes the next. Pure records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Aspect(StrEnum):
    """What is checked, causes before effects."""

    MODEL = "model"
    VERSION = "version"
    PLACEMENT = "placement"
    PINS = "pins"
    PASSES = "passes"
    STEP_TIME = "step time"
    REQUEST_TIME = "request time"
    PEAK = "peak"


class Outcome(StrEnum):
    """How a check ended."""

    CONFIRMED = "confirmed"
    MISMATCH = "mismatch"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One expectation beside what was observed.

    Attributes:
        aspect: what kind it is.
        subject: of which component, stack or figure.
        expected, observed: in words; ``observed`` says why where nothing was.
        outcome: of the two.
        tolerance: within which they count as the same; empty where they must be equal.
        remedy: what a mismatch probably means, and what to do.
    """

    aspect: Aspect
    subject: str
    expected: str
    observed: str
    outcome: Outcome
    tolerance: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """All checks of one plan, in causal order, and what could not be read of what was observed."""

    plan: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    def count(self, outcome: Outcome) -> int:
        """Checks that ended so."""
        return sum(check.outcome is outcome for check in self.checks)

    @property
    def first_mismatch(self) -> Check | None:
        """The mismatch that can cause the others; None without any."""
        order = list(Aspect)
        found = [check for check in self.checks if check.outcome is Outcome.MISMATCH]
        return min(found, key=lambda check: order.index(check.aspect), default=None)

    @property
    def headline(self) -> str:
        """The outcome in one sentence, with what to do where something differs."""
        first = self.first_mismatch
        if first is not None:
            return (
                f"{self.plan} did not take effect as planned; the first mismatch is the {first.aspect} of "
                f"{first.subject}: expected {first.expected}, observed {first.observed}. {first.remedy}"
            )
        confirmed, unknown = self.count(Outcome.CONFIRMED), self.count(Outcome.NOT_OBSERVABLE)
        if not confirmed:
            return f"{self.plan}: nothing of the plan could be observed ({unknown} checks)"
        rest = f"; {unknown} could not be observed" if unknown else ""
        return f"{self.plan} took effect, as far as was observed: {confirmed} checks confirmed{rest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRead:
    """Two plans that differ and were observed alike: one of them, or both, cannot have been read by the server."""

    plans: tuple[str, str]
    text: str
