"""Which cards a row was measured on, how many, and how they shared the model. Pure.

Several cards can be compared where they ran one model by tensor parallelism alone: every other way to share (Ulysses,
USP, FSDP, replicas) moves other bytes and is refused. A card is found by its exact name: ``RTX 4090 D`` is no
``RTX 4090``. A figure of memory beside it must agree with the card, unless it is called a cap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from autotune.hardware import DevicePreset, find_device, list_devices
from autotune.observed.observation import Reason
from autotune.observed.quantities import NUMBER, parse_count, read_number, shorten
from autotune.observed.refusal import RowRefusedError
from runtime.errors import InputError
from runtime.units import GIB

_COUNT = re.compile(r"\s*([0-9]{1,4})\s*(?:of\s+[0-9]{1,4}\s*)?[x\u00d7]\s*", re.IGNORECASE)
_PART_OF_SEVERAL = re.compile(r"\s*[0-9]+\s+of\s+[0-9]+\s*[x\u00d7]", re.IGNORECASE)
_GPUS = re.compile(r"(?:([0-9]{1,4})|(multi))[ -]?GPUs?\b", re.IGNORECASE)
_COUNT_BY_KIND = re.compile(
    r"([0-9]+) GPUs? for (videos?|images?)\b[^)]*?([0-9]+) for (videos?|images?)", re.IGNORECASE
)
_SHARING = re.compile(
    r"(?<![A-Za-z])(TP|USP|SP|DP|PP|EP|CP|CFG|FSDP|HSDP|Ulysses|Ring|U)(?![A-Za-z])(?:[ =-]?([0-9]{1,3}))?"
    r"(?:\s*[x+](?=[A-Z]))?",
    re.IGNORECASE,
)
_NAMED_ALONE = frozenset({"FSDP", "HSDP", "USP", "ULYSSES"})
_JOINED = re.compile(
    r"(?<=[0-9])\s*[x+]\s*(?=(?:TP|USP|SP|DP|PP|EP|CP|CFG|FSDP|HSDP|Ulysses|Ring|U)[0-9])", re.IGNORECASE
)
_OTHER_CARD = re.compile(r"\b(laptop|mobile|max-?q|notebook|vgpu|mig|proxy)\b", re.IGNORECASE)
_NOISE = re.compile(r"\b(fp16|bf16|hbm[0-9]?[a-z]?|gddr[0-9]x?)\b", re.IGNORECASE)
_SIZE = re.compile(rf"\b({NUMBER})\s?(?:GiB|GB|G)\b", re.IGNORECASE)
_CAP = re.compile(
    rf"cap(?:ped)?(?: (?:at|of|to))?\s+({NUMBER})|({NUMBER})\s*(?:GiB|GB|G)?\s+(?:[a-z]+\s+){{0,2}}cap\b", re.IGNORECASE
)
_CAP_WORD = re.compile(r"\bcap(?:ped)?\b", re.IGNORECASE)
_SAME_CARD_RATIO = 0.1
"""People write 24 for 23.99 GiB, 80 for 79.6, 141 GB for 140.4 GiB, 31.4 for what a process sees of 31.84."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """The cards of a run.

    Attributes:
        device: preset of each.
        tp_size: ranks of tensor parallelism, one a card.
        cap_bytes: what the allocator was allowed where that is less than the card gives; None for all of it.
    """

    device: DevicePreset
    tp_size: int
    cap_bytes: int | None


def read_cards(*, gpu: str, vram: str, component: str, tp: str, peak: str, makes_images: bool) -> Cards:
    """The cards of a row.

    Args:
        gpu: the cell of that name.
        vram: memory of a card in GiB, as the cell of that name has it.
        component: may say how several cards shared the model.
        tp: ranks of tensor parallelism; empty where they are not a column of their own.
        peak: the cells about the peak, which may call the memory a cap.
        makes_images: of the model; a source may give one count of cards for images and one for video.

    Raises:
        RowRefusedError: several cards that shared the model in another way, or no preset of that name and memory.
    """
    tp_size = _count_ranks(gpu, component, tp, makes_images)
    device = _find_preset(gpu)
    size_gib = _read_size(vram)
    cap_gib = _read_cap(gpu, vram, peak, size_gib)
    if cap_gib is None and size_gib is not None:
        _check_size(gpu, size_gib, device)
    cap_bytes = None if cap_gib is None else round(cap_gib * GIB)
    is_below = cap_bytes is not None and 0 < cap_bytes < device.usable_vram_bytes
    return Cards(device=device, tp_size=tp_size, cap_bytes=cap_bytes if is_below else None)


def _count_ranks(gpu: str, component: str, tp: str, makes_images: bool) -> int:
    count = _count_cards(gpu, component, makes_images)
    sharing = _SHARING.findall(_JOINED.sub(" ", f"{gpu} ; {component}"))
    others = dict.fromkeys(
        f"{way}{degree}"
        for way, degree in sharing
        if way.upper() != "TP" and degree != "1" and (degree or way.upper() in _NAMED_ALONE)
    )
    degrees = [int(degree) for way, degree in sharing if way.upper() == "TP" and degree]
    ranks = parse_count(tp, "tp_size") if tp else max(degrees, default=1)
    if others or (count > 1 and ranks != count) or _PART_OF_SEVERAL.match(gpu):
        how = f"by {', '.join(others)}" if others else "in a way that the row does not state"
        raise RowRefusedError(
            Reason.SEVERAL_GPUS,
            f"{shorten(gpu)!r}: {max(count, ranks)} cards shared the model {how}; only tensor parallelism alone can "
            "be compared, written like 2x RTX 5090 (TP2)",
        )
    return ranks


def _count_cards(gpu: str, component: str, makes_images: bool) -> int:
    by_kind = _COUNT_BY_KIND.search(gpu)
    if by_kind:
        counts = {by_kind[2].casefold()[:5]: int(by_kind[1]), by_kind[4].casefold()[:5]: int(by_kind[3])}
        return counts.get("image" if makes_images else "video", 1)
    leading = _COUNT.match(gpu)
    counted = [int(leading[1])] if leading else []
    counted += [int(number) if number else 2 for number, _ in _GPUS.findall(f"{gpu} ; {component}")]
    return max([1, *counted])


def _find_preset(gpu: str) -> DevicePreset:
    other = _OTHER_CARD.search(gpu)
    device, size_gib = _match_preset(gpu)
    if device is None or other:
        named = f"{shorten(gpu)!r} ({other[0]})" if other else repr(shorten(gpu))
        known = ", ".join(device.name for device in list_devices())
        raise RowRefusedError(
            Reason.UNKNOWN_DEVICE,
            f"{named} is no card with a preset: known are {known}; spell its name so if it is one of them",
        )
    if size_gib is not None:
        _check_size(gpu, size_gib, device)
    return device


@lru_cache(maxsize=4096)
def _match_preset(gpu: str) -> tuple[DevicePreset | None, float | None]:
    """The preset that ``gpu`` names and the GiB that stand in the name where no preset has them in its own."""
    plain = re.split(r"[,;]", re.sub(r"\([^)]*\)", " ", gpu))[0]
    plain = _SHARING.sub(" ", _JOINED.sub(" ", _COUNT.sub("", plain, count=1)))
    plain = _NOISE.sub(" ", plain).strip()
    size = _SIZE.search(plain)
    for name, size_gib in ((plain, None), (_SIZE.sub(" ", plain), read_number(size[1]) if size else None)):
        try:
            return find_device(name), size_gib
        except InputError:
            continue
    return None, None


def _read_size(vram: str) -> float | None:
    match = re.search(NUMBER, vram)
    size_gib = read_number(match[0]) if match else 0.0
    return size_gib or None


def _read_cap(gpu: str, vram: str, peak: str, size_gib: float | None) -> float | None:
    """GiB that the allocator was allowed, where any cell speaks of a cap."""
    for text in (gpu, vram):
        match = _CAP.search(text)
        if match:
            return read_number(match[1] or match[2])
    return size_gib if any(_CAP_WORD.search(text) for text in (gpu, vram, peak)) else None


def _check_size(gpu: str, size_gib: float, device: DevicePreset) -> None:
    has_gib = device.memory_bytes / GIB
    if abs(size_gib - has_gib) > _SAME_CARD_RATIO * has_gib:
        raise RowRefusedError(
            Reason.UNKNOWN_DEVICE,
            f"{shorten(gpu)!r} has {size_gib:g} GiB in the table and {has_gib:.1f} GiB as {device.name}: another "
            "variant of the card; write `12 GiB cap` where the allocator was capped",
        )
