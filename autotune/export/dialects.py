"""Which placement options each known version of the server understands."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.errors import FlagError

_ALL_KNOBS = frozenset({"prefetch", "resident", "policy", "lifetime"})
# The version whose schedule is recorded and simulated.
RECORDED_TARGET = "sglang@0.5.23"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The spelling of placement that one target understands.

    Attributes:
        target: the name under which people ask for it.
        names_modes: whether ``--component-residency`` exists; else a layerwise list and one switch per group.
        map_knobs: knobs that have a per-component map.
        dit_knobs: knobs that have an option for all DiT components.
        evidence: how we know.
    """

    target: str
    names_modes: bool
    map_knobs: frozenset[str]
    dit_knobs: frozenset[str]
    evidence: str

    @property
    def is_recorded(self) -> bool:
        """Whether our simulation was checked against this version."""
        return self.target == RECORDED_TARGET


def _released(version: str, *, names_modes: bool, map_knobs: frozenset[str], dit_knobs: frozenset[str]) -> Dialect:
    return Dialect(
        target=f"sglang@{version}",
        names_modes=names_modes,
        map_knobs=map_knobs,
        dit_knobs=dit_knobs,
        evidence=f"options in the server arguments of the released sglang {version} wheel",
    )


_WITHOUT_LIFETIME = _ALL_KNOBS - {"lifetime"}
DIALECTS = (
    *(
        _released(version, names_modes=True, map_knobs=_ALL_KNOBS, dit_knobs=_ALL_KNOBS)
        for version in ("0.5.23", "0.5.22", "0.5.21")
    ),
    *(
        _released(version, names_modes=True, map_knobs=_WITHOUT_LIFETIME, dit_knobs=_WITHOUT_LIFETIME)
        for version in ("0.5.20", "0.5.19")
    ),
    _released("0.5.18", names_modes=True, map_knobs=frozenset(), dit_knobs=_WITHOUT_LIFETIME),
    _released("0.5.17", names_modes=False, map_knobs=frozenset(), dit_knobs=frozenset({"prefetch", "resident"})),
    _released("0.5.16", names_modes=False, map_knobs=frozenset(), dit_knobs=frozenset({"prefetch"})),
    Dialect(
        target="sglang-dit-flags",
        names_modes=False,
        map_knobs=frozenset(),
        dit_knobs=_ALL_KNOBS,
        evidence="the older spelling that 0.5.21 to 0.5.23 still accept; no release has it alone",
    ),
)


def find_dialect(target: str) -> Dialect:
    """The dialect called ``target``; ``sglang`` alone means the version whose behaviour is recorded.

    Raises:
        FlagError: unknown; the message lists the known ones.
    """
    for dialect in DIALECTS:
        if dialect.target == (RECORDED_TARGET if target == "sglang" else target):
            return dialect
    known = ", ".join(dialect.target for dialect in DIALECTS)
    raise FlagError(f"no server dialect is called {target!r}: known are {known}")
