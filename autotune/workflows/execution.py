"""Executes requests under a plan on any device: warm-up first, then the requests that count. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from autotune.workflows.run_settings import Rounds
from runtime.devices.protocol import Device
from runtime.errors import InputError
from runtime.session import Executable, Session
from runtime.session_report import SessionReport

PerformUse = Callable[[int, Device], None]
"""Makes all calls of the use at a position of the request, on the device."""
CountRequests = Callable[[int, int], None]
"""Told how many requests have ended, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What was executed.

    Attributes:
        report: every request.
        device: what people call the device.
        clock: where times are from: ``device`` events, or the ``real`` or ``virtual`` clock of an emulated device.
        byte_scale: as how many bytes each real byte counts.
        time_scale: wall seconds per second of the report, where they differ; None where they cannot.
        notes: what tells it apart from a served request, one sentence each.
    """

    report: SessionReport
    device: str
    clock: Literal["device", "real", "virtual"]
    byte_scale: int = 1
    time_scale: float | None = None
    notes: tuple[str, ...] = ()


def run_requests(
    executable: Executable,
    modules: Mapping[str, nn.Module],
    perform: PerformUse,
    device: Device,
    *,
    rounds: Rounds,
    stacks: Mapping[str, Mapping[str, str]] | None = None,
    notify: CountRequests = lambda *_: None,
) -> SessionReport:
    """Attach ``modules``, execute requests one after another, detach, and report all of them.

    The clock starts anew with every request, once the device has finished the one before; nothing is read from the
    device while a request runs.

    Args:
        executable: the plan, for these modules.
        modules: by component; every component of the plan is there.
        perform: called for every use of the request that runs anything, in order, without gradients.
        device: stays open.
        rounds: how many.
        stacks: see ``Session``.
        notify: called before every request.

    Raises:
        InputError: the request runs nothing.
        SessionError: the modules are not those of the plan.
        DeviceError: a copy failed, or memory ran out.
    """
    if not any(use.groups for use in executable.request.uses):
        raise InputError("the plan's request runs no layers: there is nothing to execute")
    with Session(modules, executable, device=device, stacks=stacks) as session, torch.no_grad():
        for done in range(rounds.total):
            notify(done, rounds.total)
            with session.request():
                for position, use in enumerate(executable.request.uses):
                    if use.groups:
                        perform(position, device)
        return session.report()
