"""What became of a plan on a server, as a table. Pure."""

from __future__ import annotations

from autotune.observed.verdict import Outcome, Verification
from reports.tables import Table

_WORDS = {Outcome.CONFIRMED: "confirmed", Outcome.MISMATCH: "MISMATCH", Outcome.NOT_OBSERVABLE: "not observable"}


def verification_table(verification: Verification) -> Table:
    """Every check, causes before effects; mismatches in capitals."""
    rows = tuple(
        (
            str(check.aspect),
            check.subject,
            check.expected,
            check.observed,
            _WORDS[check.outcome],
            check.tolerance,
        )
        for check in verification.checks
    )
    columns = ("check", "of", "expected", "observed", "outcome", "within")
    return Table(
        title=verification.plan,
        columns=columns,
        rows=rows,
        foldable=frozenset({"of", "expected", "observed", "within"}),
        optional=("within",),
    )
