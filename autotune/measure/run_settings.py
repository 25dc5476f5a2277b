"""How pieces of a model are run: attention, autocast, compilation, and what they are measured with. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from autotune.measure.bench import Bench
from autotune.measurements.model_profile import RunOptions
from runtime.errors import InputError

ATTENTION_BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
AUTOCAST_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How pieces are run.

    Attributes:
        bench: what they are measured with.
        options: attention, autocast and compilation.
        seed: of weights and inputs.
    """

    bench: Bench
    options: RunOptions = field(default_factory=RunOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("attention", self.options.attention, ("auto", *ATTENTION_BACKENDS)),
            ("autocast", self.options.autocast, ("none", *AUTOCAST_DTYPES)),
        ):
            if value not in known:
                raise InputError(f"{name} {value!r} is not known: choose {', '.join(known)}")


@contextmanager
def options_in_force(settings: RunSettings) -> Iterator[None]:
    """What runs inside computes as the options say."""
    options, kind = settings.options, settings.bench.device.torch_device.type
    contexts: list[AbstractContextManager[object]] = [nullcontext()]
    if options.attention != "auto":
        contexts.append(sdpa_kernel([ATTENTION_BACKENDS[options.attention]]))
    if options.autocast != "none":
        contexts.append(torch.autocast(kind, dtype=AUTOCAST_DTYPES[options.autocast]))
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
