"""Uncertainties of which every number is given."""

from autotune.uncertainty import Uncertainty


def build_uncertainty(sds, *, repeat_ratio=0.0, covariance=None):
    """Independent factors of ``sds``; ``covariance`` adds what two of them share."""
    names = tuple(sds)
    rows = [[sds[one] ** 2 if one == other else 0.0 for other in names] for one in names]
    for (one, other), value in (covariance or {}).items():
        rows[names.index(one)][names.index(other)] = rows[names.index(other)][names.index(one)] = value
    return Uncertainty(
        names=names,
        covariance=tuple(map(tuple, rows)),
        repeat_ratio=repeat_ratio,
        sources=dict.fromkeys(names, "a test's"),
    )
