"""Several cards of one machine that answer one request together: their facts and their target are those of one rank."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autotune.evaluate import Evaluation
from autotune.hardware import GIVEN_BY_USER
from autotune.model_facts import ModelFacts
from autotune.tensor_parallel.shard import shard_facts
from autotune.tensor_parallel.sharing import EXCHANGE_SOURCE, Sharing, share_rates
from autotune.workflows.target import Target, set_figure
from runtime.errors import InputError
from runtime.target_summary import DeviceSummary, Figure
from runtime.units import format_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWish:
    """What was typed about several cards.

    Attributes:
        tp_size: ``--tp-size``; None where nothing was.
        sharing: how the cards are connected.
    """

    tp_size: int | None = None
    sharing: Sharing = field(default_factory=Sharing)


def take_one_rank(facts: ModelFacts, target: Target, wish: RankWish) -> tuple[ModelFacts, Target]:
    """``facts`` and ``target`` of one rank, from those of one card that works alone or of a saved plan's rank.

    Raises:
        InputError, UnsupportedError: as ``shard_facts``; or links are described that a saved profile knows already.
    """
    ranks = facts.tp_size if wish.tp_size is None else wish.tp_size
    own = shard_facts(facts, ranks)
    if facts.tp_size > 1:
        if wish.sharing != Sharing():
            raise InputError(
                f"the profile is of one of {facts.tp_size} ranks and already says how fast they exchange: leave out "
                "--exchange-rate and --shared-link, or plan anew without --profile"
            )
        return own, _describe(target, ranks)
    shared = replace(target, rates=share_rates(target.rates, ranks, wish.sharing))
    if ranks == 1:
        return own, shared
    return own, _describe(replace(shared, device=_share_figures(shared, ranks, wish.sharing)), ranks)


def _share_figures(target: Target, ranks: int, sharing: Sharing) -> DeviceSummary:
    """The device's figures with the rates of one rank, and where these come from."""
    rates, device = target.rates, target.device
    for name, value, how in (
        ("pinned_bytes_per_s", rates.pinned_bytes_per_s, "a part: the cards share one link"),
        ("pageable_bytes_per_s", rates.pageable_bytes_per_s, "a part: the cards share one link"),
        ("d2h_pinned_bytes_per_s", rates.d2h_bytes_per_s, "a part: the cards share one link"),
        ("disk_bytes_per_s", rates.disk_bytes_per_s, f"a part: {ranks} ranks read at once"),
    ):
        known = device.figures[name]
        if value < known.value:
            device = set_figure(device, name, Figure(value=value, unit=known.unit, source=f"{known.source}; {how}"))
    source = EXCHANGE_SOURCE if sharing.exchange_bytes_per_s is None else GIVEN_BY_USER
    exchange = Figure(value=rates.exchange_bytes_per_s or 0.0, unit="bytes/s", source=source)
    return set_figure(device, "exchange_bytes_per_s", exchange)


def _describe(target: Target, ranks: int) -> Target:
    """``target`` of one of ``ranks``, in words too."""
    share = target.host.available_bytes // ranks
    return replace(
        target,
        ranks=ranks,
        device=replace(target.device, origin=f"{target.device.origin}; {ranks} of them, one rank each"),
        cap=replace(target.cap, reason=f"{target.cap.reason}, on each of {ranks} GPUs"),
        host=replace(
            target.host, origin=f"{target.host.origin}; for all {ranks} ranks together, {format_gib(share)} for each"
        ),
    )


def list_rank_assumptions(target: Target) -> tuple[str, ...]:
    """What is assumed of several cards; nothing of one."""
    if target.ranks == 1:
        return ()
    return (
        f"tensor parallel over {target.ranks} GPUs: bytes, times, the cap and the server's own choice are those of one "
        "GPU, the rank that has most to do; all ranks do the same at the same time",
        f"ranks exchange at {(target.rates.exchange_bytes_per_s or 0.0) / 1e9:.1f} GB/s and compute nothing meanwhile; "
        "every card has its own link to the host unless --shared-link is given, and the host's memory is taken to be "
        "fast enough for all of them (--link-rate says what one rank gets)",
    )


def describe_ranks(evaluation: Evaluation, target: Target) -> tuple[str, ...]:
    """What the figures of several ranks are of, and what these hold together; nothing of one."""
    if target.ranks == 1:
        return ()
    held = evaluation.hosting.held_bytes
    return (
        f"All figures are per GPU; the {target.ranks} ranks hold {format_gib(held * target.ranks)} of host memory "
        f"together, {format_gib(held)} each",
    )


def warn_of_ranks(evaluation: Evaluation, target: Target) -> tuple[str, ...]:
    """Where the server's ranks would not keep to equal parts of the host."""
    is_pinned = all(component.is_pinned for component in evaluation.hosting.components)
    if target.ranks == 1 or is_pinned or not target.host.pins:
        return ()
    return (
        f"Not every layer is pinned within one of {target.ranks} equal parts of the host, and the server does not "
        "divide it: each rank takes all for its own and may pin until the system ends the server. Give the host "
        "more memory, or take fewer ranks",
    )
