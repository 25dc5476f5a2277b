"""All devices of this machine and which one this process computes on; or the one device alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from autotune.host_memory import HostReading, read_host_memory
from autotune.telemetry.answers import Answer, Unknown, or_none
from autotune.telemetry.cards import Card, Inventory, list_cards
from autotune.telemetry.cuda_runtime import CudaIdentity, identify_cuda_device, match_card
from autotune.telemetry.nvml import NoModule, open_nvml
from autotune.telemetry.processes import OwnProcess, find_own_process
from autotune.telemetry.read_card import read_card
from autotune.telemetry.reading import GpuReading
from autotune.telemetry.visible import Choice, NoDevice, resolve_visible


class Missing(StrEnum):
    """The first thing that is missing where no device is known."""

    MODULE = "module"
    DRIVER = "driver"
    CARD = "card"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSurvey:
    """The devices of this machine.

    Attributes:
        readings: every card, or every MIG instance of a card in MIG mode.
        used: places in ``readings`` of the device that this process computes on; several where cards are alike and
            only the CUDA runtime knows which one; none where it sees no device, or where that cannot be told.
        explanation: how it was told, or why it cannot be.
        is_settled: whether ``used`` is an answer, be it "none"; False where it cannot be told.
        lost: why cards that the driver counts do not answer.
        missing: why there is nothing in ``readings`` and ``lost``: the Python module, a driver that answers, a card, or
            an instance of a card in MIG mode; else None.
    """

    readings: tuple[GpuReading, ...]
    used: tuple[int, ...]
    explanation: str
    is_settled: bool
    lost: tuple[str, ...] = ()
    missing: Missing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a survey looks; the defaults are this process and this machine.

    Attributes:
        load_nvml: returns the module ``pynvml``; None for the installed one.
        torch: the module ``torch``; None for the one that this process has imported, if any.
        environ: environment variables; None for this process's.
        host: memory of the machine; None to read it.
        own: this process; None to find out.
    """

    load_nvml: Callable[[], Any] | None = None
    torch: Any = None
    environ: Mapping[str, str] | None = None
    host: HostReading | None = None
    own: OwnProcess | None = None


def survey_gpus(where: Surroundings | None = None) -> GpuSurvey:
    """Read every device. Never fails: without a driver there is none, and the explanation says why."""
    where = where or Surroundings()
    host = where.host or read_host_memory()
    identity = or_none(identify_cuda_device(None, where.torch))
    with open_nvml(where.load_nvml) as nvml:
        inventory = list_cards(nvml)
        if isinstance(inventory, Unknown):
            missing = Missing.MODULE if isinstance(inventory, NoModule) else Missing.DRIVER
            return GpuSurvey(readings=(), used=(), explanation=inventory.reason, is_settled=False, missing=missing)
        chosen = _choose(inventory, where, identity)
        used = chosen.candidates if isinstance(chosen, Choice) else ()
        parts = [part for card in inventory.cards for part in card.parts]
        only = used[0] if len(used) == 1 else None
        return GpuSurvey(
            readings=tuple(_read(part, inventory, where, host, identity if part is only else None) for part in parts),
            used=tuple(at for at, part in enumerate(parts) if any(part is card for card in used)),
            explanation=chosen.how if isinstance(chosen, Choice) else chosen.reason,
            is_settled=not isinstance(chosen, Unknown),
            lost=inventory.lost,
            missing=_find_missing(inventory),
        )


def read_process_gpu(ordinal: int | None = None, where: Surroundings | None = None) -> Answer[GpuReading]:
    """The device that this process has opened as ``cuda:<ordinal>``, by its UUID; the current one for None."""
    where = where or Surroundings()
    identity = identify_cuda_device(ordinal, where.torch)
    if isinstance(identity, Unknown):
        return identity
    with open_nvml(where.load_nvml) as nvml:
        inventory = list_cards(nvml)
        if isinstance(inventory, Unknown):
            return inventory
        chosen = _choose(inventory, where, identity)
        if not isinstance(chosen, Choice):
            return Unknown(reason=chosen.reason)
        return _read(chosen.candidates[0], inventory, where, where.host or read_host_memory(), identity)


def _find_missing(inventory: Inventory) -> Missing | None:
    if inventory.lost or any(card.parts for card in inventory.cards):
        return None
    return Missing.INSTANCE if inventory.cards else Missing.CARD


def _choose(inventory: Inventory, where: Surroundings, identity: CudaIdentity | None) -> Choice | NoDevice | Unknown:
    environ = os.environ if where.environ is None else where.environ
    by_environ = resolve_visible(inventory, environ, 0 if identity is None else identity.ordinal)
    if identity is None:
        return by_environ
    return match_card(inventory, identity, by_environ if isinstance(by_environ, Choice) else None)


def _read(
    card: Card, inventory: Inventory, where: Surroundings, host: HostReading, identity: CudaIdentity | None
) -> GpuReading:
    own = where.own or find_own_process(has_context=identity is not None)
    return read_card(card, driver=inventory.driver, own=own, host=host, identity=identity)
