"""Which card a process would compute on, told from the environment alone: no CUDA, no torch.

CUDA numbers the cards by speed unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID``; NVML numbers them otherwise. So an index is
resolved only where that cannot be wrong. A UUID, or the unique beginning of one, is always exact. The list of
``CUDA_VISIBLE_DEVICES`` ends before its first invalid entry; an empty list and ``-1`` hide every card.
Source: CUDA C++ programming guide, "CUDA Environment Variables".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.telemetry.answers import Unknown
from autotune.telemetry.cards import Card, Inventory

_LIST, _ORDER, _BUS_ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDevice:
    """The process sees no card, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The card of a process.

    Attributes:
        candidates: the card; several where they are alike and only the CUDA runtime knows which one it is.
        how: how it was told, for people.
    """

    candidates: tuple[Card, ...]
    how: str

    @property
    def card(self) -> Card | None:
        """The one card; None where several are alike."""
        return self.candidates[0] if len(self.candidates) == 1 else None


def resolve_visible(inventory: Inventory, environ: Mapping[str, str], ordinal: int = 0) -> Choice | NoDevice | Unknown:
    """The card that the process calls ``cuda:<ordinal>``.

    Args:
        inventory: the cards of the machine.
        environ: the environment of the process.
        ordinal: CUDA's number of the card in that process.
    """
    if not inventory.cards and not inventory.lost:
        return NoDevice(reason="the driver lists no card")
    text = environ.get(_LIST)
    if text is None:
        return _resolve_position(inventory, environ, ordinal, f"{_LIST} is not set")
    entries = [entry.strip() for entry in text.split(",")]
    if entries[0].startswith(("GPU-", "MIG-")):
        return _resolve_uuid(inventory, entries, ordinal, text)
    return _resolve_index(inventory, environ, entries, ordinal)


def _resolve_index(
    inventory: Inventory, environ: Mapping[str, str], entries: Sequence[str], ordinal: int
) -> Choice | NoDevice | Unknown:
    said = f"{_LIST}={','.join(entries)}"
    positions: list[int] = []
    for entry in entries:
        if entry[:1].isdecimal() and not entry.isdecimal():
            return Unknown(reason=f"{said}: {entry!r} is no plain number; write the card's UUID")
        if not entry.isdecimal() or int(entry) >= len(inventory.cards) + len(inventory.lost):
            break
        positions.append(int(entry))
    if len(set(positions)) < len(positions):
        return NoDevice(reason=f"{said} names a card twice, so CUDA shows none")
    if ordinal >= len(positions):
        return NoDevice(reason=f"{said} shows {_count(len(positions))}")
    return _resolve_position(inventory, environ, positions[ordinal], said)


def _resolve_position(
    inventory: Inventory, environ: Mapping[str, str], position: int, said: str
) -> Choice | NoDevice | Unknown:
    """The card at ``position`` of CUDA's own order."""
    cards = inventory.cards
    if inventory.lost:
        return Unknown(
            reason=f"a card does not answer ({inventory.lost[0]}), so CUDA's numbers cannot be told. {_ask()}"
        )
    if position >= len(cards):
        return NoDevice(reason=f"{said} and the machine has {_count(len(cards))}")
    if len(cards) == 1:
        return _enter_card(cards[0], f"{said} and it is the only card")
    if any(card.instances is not None for card in cards):
        return Unknown(reason=f"{said} and a card is in MIG mode. {_ask(cards)}")
    return _resolve_order(cards, environ, position, said)


def _resolve_order(
    cards: tuple[Card, ...], environ: Mapping[str, str], position: int, said: str
) -> Choice | NoDevice | Unknown:
    """The card at ``position`` among several whole ones."""
    if environ.get(_ORDER) == _BUS_ORDER:
        by_bus = sorted((card.bus_id, at) for at, card in enumerate(cards) if card.bus_id is not None)
        if len(by_bus) == len(cards):
            return Choice(candidates=(cards[by_bus[position][1]],), how=f"{said}, {_ORDER}={_BUS_ORDER}")
        return Unknown(reason=f"{_ORDER}={_BUS_ORDER}, but a card does not tell its PCI address. {_ask(cards)}")
    kinds = {card.kind for card in cards}
    if len(kinds) == 1 and None not in kinds:
        how = f"{said} and all {len(cards)} cards are alike; only CUDA knows which of them comes first"
        return Choice(candidates=cards, how=how)
    titles = ", ".join(card.title or "a card without a name" for card in cards)
    return Unknown(
        reason=f"{said}, the cards differ ({titles}), and CUDA orders them by speed unless {_ORDER}={_BUS_ORDER}. "
        f"{_ask(cards)}"
    )


def _resolve_uuid(inventory: Inventory, entries: Sequence[str], ordinal: int, text: str) -> Choice | NoDevice | Unknown:
    if ordinal >= len(entries):
        return NoDevice(reason=f"{_LIST}={text} shows {_count(len(entries))}")
    everything = [*inventory.cards, *(part for card in inventory.cards for part in card.instances or ())]
    chosen: list[Card] = []
    for entry in entries[: ordinal + 1]:
        if entry.startswith("MIG-GPU-"):
            return Unknown(
                reason=f"{entry!r} is the old form of a MIG name: write the MIG UUID that `nvidia-smi -L` prints"
            )
        found = [card for card in everything if entry and card.uuid is not None and card.uuid.startswith(entry)]
        if len(found) != 1:
            if inventory.lost or any(card.uuid is None for card in everything):
                return Unknown(reason=f"{entry!r} is no card that tells its UUID, and not every card does")
            what = "is the beginning of several cards' UUIDs" if found else "is the UUID of no card here"
            return NoDevice(reason=f"{_LIST}={text}: {entry!r} {what}, so CUDA shows none from there on")
        chosen.append(found[0])
    return _enter_card(chosen[ordinal], f"named by its UUID in {_LIST}")


def _enter_card(card: Card, how: str) -> Choice | NoDevice | Unknown:
    """``card``, or the only MIG instance it is made of."""
    if card.instances is None:
        return Choice(candidates=(card,), how=how)
    if not card.instances:
        return NoDevice(reason=f"{card.describe()} is in MIG mode and has no instance: create one, or leave MIG mode")
    if len(card.instances) == 1:
        return Choice(candidates=card.instances, how=f"{how}; of its MIG instances there is one")
    return Unknown(reason=f"{how}, but it is in MIG mode with {len(card.instances)} instances. {_ask(card.instances)}")


def _ask(cards: Sequence[Card] = ()) -> str:
    uuids = [card.uuid for card in cards if card.uuid is not None]
    examples = f": {' or '.join(uuids)}" if uuids else ", as `nvidia-smi -L` prints it"
    return f"Set {_LIST} to the UUID of one{examples}"


def _count(number: int) -> str:
    return f"{number} card{'' if number == 1 else 's'}"
