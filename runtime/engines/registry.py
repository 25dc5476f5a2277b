"""Engines by their versioned name: each is a rule that turns a plan into a program."""

from __future__ import annotations

from typing import Protocol

from runtime.engines.host_rules import HostRule
from runtime.engines.lifecycle import Lifecycle
from runtime.engines.sglang import SglangEngine
from runtime.engines.topup import TopupEngine
from runtime.errors import UnsupportedError
from runtime.hosting import HostMemory
from runtime.model_spec import ModelSpec, RequestSpec


class Engine(Protocol):
    """Whose behaviour is simulated."""

    name: str

    def lifecycle(self, model: ModelSpec, request: RequestSpec) -> Lifecycle:
        """What turns plans for ``model`` and ``request`` into programs."""
        ...

    def host_rule(self, model: ModelSpec, request: RequestSpec, memory: HostMemory, /) -> HostRule:
        """Where the host copies of ``model`` wait on a host with ``memory``."""
        ...


DEFAULT_ENGINE = SglangEngine.name


def list_engines() -> tuple[str, ...]:
    """Names of all engines whose behaviour is known."""
    return (SglangEngine.name, TopupEngine.name)


def find_engine(name: str) -> Engine:
    """The engine called ``name``; ``sglang`` alone is not enough, because behaviour is versioned.

    Raises:
        UnsupportedError: the behaviour of that engine or version is not known here.
    """
    engines: dict[str, type[Engine]] = {SglangEngine.name: SglangEngine, TopupEngine.name: TopupEngine}
    if name not in engines:
        raise UnsupportedError(
            f"engine {name!r} is unknown: behaviour differs between versions, so none is assumed; known are "
            f"{', '.join(engines)}"
        )
    return engines[name]()
