"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.tensor_parallel.sharing import Sharing
from autotune.workflows.host import HostWish
from autotune.workflows.ranks import RankWish
from autotune.workload import Recipe
from runtime.engines.registry import list_engines
from runtime.units import parse_bytes, parse_rate

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
THIS_MACHINE = "this-machine"
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


def optional_bytes(text: str | None) -> int | None:
    """A size, or None when nothing was typed."""
    return None if text is None else parse_bytes(text)


def read_reserve(text: str) -> int:
    """Device memory to keep free, which may be none.

    Raises:
        UnitError: no size.
    """
    return 0 if text.strip() == "0" else parse_bytes(text)


def optional_rate(text: str | None) -> float | None:
    """A rate, or None when nothing was typed."""
    return None if text is None else parse_rate(text)


def read_rank_wish(tp_size: int | None, exchange_rate: str | None, *, shared_link: bool) -> RankWish:
    """What was typed about several cards.

    Raises:
        UnitError: a rate that is none.
    """
    sharing = Sharing(exchange_bytes_per_s=optional_rate(exchange_rate), shares_link=shared_link)
    return RankWish(tp_size=tp_size, sharing=sharing)


def read_host_wish(
    *, host_memory: str | None, disk_rate: str | None, page_cache_room: str | None, pin_cpu_memory: bool
) -> HostWish:
    """What was typed about the host.

    Raises:
        UnitError: a size or a rate that is none.
    """
    here = host_memory == THIS_MACHINE
    return HostWish(
        memory_bytes=None if here else optional_bytes(host_memory),
        disk_bytes_per_s=optional_rate(disk_rate),
        page_cache_bytes=0 if page_cache_room == "0" else optional_bytes(page_cache_room),
        pins=pin_cpu_memory,
        this_machine=here,
    )
