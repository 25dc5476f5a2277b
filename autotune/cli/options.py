"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.workflows.wish_text import THIS_MACHINE
from autotune.workload import Recipe
from runtime.engines.registry import list_engines
from runtime.units import parse_bytes

ModelOption = Annotated[
    str | None, typer.Option("--model", help="Catalog model; see `autotune models`. H3 unless --profile says.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", help="Preset to plan for, see `autotune devices`; or cuda:N, cpu, emulated: this one as profiled."
    ),
]
CapOption = Annotated[
    str | None, typer.Option("--vram-cap", help="Device memory the server may use, e.g. 24GiB or 24GB.")
]
HostOption = Annotated[
    str | None,
    typer.Option("--host-memory", help=f"Host memory to plan with, e.g. 64GB; {THIS_MACHINE} reads it here."),
]
DiskOption = Annotated[str | None, typer.Option("--disk-rate", help="Reads of mapped weights from disk, e.g. 5GB/s.")]
CacheOption = Annotated[
    str | None, typer.Option("--page-cache-room", help="What the page cache keeps of mapped weights, e.g. 8GiB.")
]
PinOption = Annotated[
    bool, typer.Option("--pin-cpu-memory/--no-pin-cpu-memory", help="Whether the server may pin host memory.")
]
LinkOption = Annotated[
    str | None, typer.Option("--link-rate", help="Host-to-device rate from pinned memory, e.g. 25GB/s.")
]
TpSizeOption = Annotated[
    int | None,
    typer.Option(
        "--tp-size", help="GPUs that divide the model (tensor parallel); all figures are then per GPU.", min=1
    ),
]
ExchangeOption = Annotated[
    str | None,
    typer.Option("--exchange-rate", help="With --tp-size: what GPUs send each other, e.g. 200GB/s over NVLink."),
]
SharedLinkOption = Annotated[
    bool, typer.Option("--shared-link", help="With --tp-size: the GPUs share one link to the host.")
]
VariantOption = Annotated[
    str | None,
    typer.Option("--variant", help="Another way to run the model, e.g. adaln-online; see `autotune models`."),
]
FastestVariantOption = Annotated[
    str | None,
    typer.Option("--variant", help="As `autotune models` lists them; auto: the fastest with the same output."),
]
WidthOption = Annotated[int | None, typer.Option("--width", help="Pixels.", min=1)]
HeightOption = Annotated[int | None, typer.Option("--height", help="Pixels.", min=1)]
FramesOption = Annotated[int | None, typer.Option("--frames", help="Frames of a video.", min=1)]
StepsOption = Annotated[int | None, typer.Option("--steps", help="Sigma points of the schedule.", min=1)]
TokensOption = Annotated[int | None, typer.Option("--prompt-tokens", help="Tokens of the prompt.", min=1)]
BatchOption = Annotated[int | None, typer.Option("--batch", help="Images of one request.", min=1)]
RecipeOption = Annotated[Recipe | None, typer.Option("--recipe", help="Quality recipe of the server.")]
EngineOption = Annotated[
    str, typer.Option("--engine", help=f"Whose behaviour is simulated: {', '.join(list_engines())}.")
]
ReserveOption = Annotated[str, typer.Option("--reserve", help="Least device memory that is kept free on purpose.")]
QuantileOption = Annotated[
    float,
    typer.Option(
        "--peak-quantile",
        help="Share of cases in which the peak is to stay within what is charged; 0.5 plans with the expected peak.",
    ),
]
ProfileOption = Annotated[
    Path | None,
    typer.Option("--profile", help="A run's profile.json, or a measured model profile, for --model and --device."),
]
NodeProfileOption = Annotated[
    Path | None,
    typer.Option("--node-profile", help="This machine's measured links, beside --profile with a model profile."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
RefreshOption = Annotated[bool, typer.Option("--refresh", help="Read the model's classes again, not the cache.")]


def read_reserve(text: str) -> int:
    """Device memory to keep free, which may be none.

    Raises:
        UnitError: no size.
    """
    return 0 if text.strip() == "0" else parse_bytes(text)
