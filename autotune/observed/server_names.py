"""Which server a row was measured on, and when. Pure.

The simulated engine is SGLang-diffusion; other programs stream in other ways, whatever their options are called, so
their rows are refused. A row that says nothing of its origin is taken as SGLang's and says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

from autotune.observed.quantities import shorten

_SGLANG = re.compile(r"(?<![a-z0-9])(?:sglang|sgl)(?![a-z0-9])", re.IGNORECASE)
_OTHERS = re.compile(
    r"(?<![a-z0-9])(vllm(?:-omni)?|dlo|diffusers|comfyui|comfy-org|wanvideowrapper|distorch|mnn|sana|unsloth(?:ai)?|"
    r"invoke-?ai|flashdreams|fastvideo|fasth3|musubi(?:-tuner)?|kohya(?:-ss)?|llama\.cpp|pocketllm|sensenova(?:-u1)?|"
    r"opensensenova|wan2gp|mmgp)(?![a-z0-9])",
    re.IGNORECASE,
)
_VERSION = re.compile(r"sglang(?:-diffusion)?[ @=v]*([0-9]+\.[0-9]+(?:\.[0-9a-z]+)*|[0-9a-f]{7,40})\b", re.IGNORECASE)
_BARE_VERSION = re.compile(r"v?[0-9]+\.[0-9]+(?:\.[0-9a-z]+)*", re.IGNORECASE)
_PULL_REQUEST = re.compile(r"PR #([0-9]+)")
_DAY = re.compile(r"(20[0-9]{2})-([0-9]{2})-([0-9]{2})")
_MONTHS = re.compile(r"(20[0-9]{2})-([0-9]{2})(?:/([0-9]{2}))?")
_YEAR = re.compile(r"20[0-9]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerName:
    """What a row says about the program that was measured.

    Attributes:
        is_sglang: whether it is SGLang-diffusion.
        text: name, version, change and date, as far as stated; empty where a source is given and names no server.
        assumed: what was assumed about it; empty for nothing.
    """

    is_sglang: bool
    text: str
    assumed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The days on which something may have been measured; both None where nobody said when."""

    first: date | None = None
    last: date | None = None

    def is_before(self, day: date) -> bool:
        """Whether it certainly ended before ``day``."""
        return self.last is not None and self.last < day

    def may_be_before(self, day: date) -> bool:
        """Whether it began before ``day``; not where nobody said when."""
        return self.first is not None and self.first < day


def read_server(*, server: str, source: str, component: str, model: str, notes: str, when: str) -> ServerName:
    """The server of a row.

    What a cell names counts in this order: the server's own column, the component, the source, the model. Notes count
    only where they name SGLang: elsewhere they compare with others.
    """
    for text in (server, component, source, model):
        if _SGLANG.search(text) or (text is server and _BARE_VERSION.fullmatch(text)):
            return ServerName(is_sglang=True, text=_describe(server, source, component, notes, when))
        other = _OTHERS.search(text)
        if other:
            return ServerName(is_sglang=False, text=other[0])
    if server:
        return ServerName(is_sglang=False, text=shorten(server))
    if _SGLANG.search(notes):
        return ServerName(is_sglang=True, text=_describe(server, source, component, notes, when))
    if source:
        return ServerName(is_sglang=False, text="")
    text = " ".join(("sglang", when)).strip()
    return ServerName(is_sglang=True, text=text, assumed="the server is not named: taken as SGLang-diffusion")


def _describe(server: str, source: str, component: str, notes: str, when: str) -> str:
    if server:
        return shorten(f"sglang {server}" if _BARE_VERSION.fullmatch(server) else server)
    when = re.sub(r"\([^)]*\)", "", when).strip()
    versions = [match[1] for match in map(_VERSION.search, (source, component, notes)) if match]
    change = _PULL_REQUEST.search(source)
    words = ["sglang", *versions[:1], *([f"PR #{change[1]}"] if change else []), when]
    return " ".join(word for word in words if word)


@lru_cache(maxsize=4096)
def read_period(text: str) -> Period:
    """When ``text``, a date cell, lies: a day, a month, several months or a year; nothing for anything else."""
    day = _DAY.match(text)
    if day:
        found = _to_day(int(day[1]), int(day[2]), int(day[3]))
        return Period(first=found, last=None if "later" in text else found)
    months = _MONTHS.match(text)
    if months:
        year, first, last = int(months[1]), int(months[2]), int(months[3] or months[2])
        return Period(first=_to_day(year, first, 1), last=_last_day(year, last))
    year_only = _YEAR.match(text)
    if year_only:
        return Period(first=date(int(year_only[0]), 1, 1), last=date(int(year_only[0]), 12, 31))
    return Period()


def _to_day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _last_day(year: int, month: int) -> date | None:
    if not 1 <= month <= 12:
        return None
    following = date(year + month // 12, month % 12 + 1, 1)
    return following - timedelta(days=1)
