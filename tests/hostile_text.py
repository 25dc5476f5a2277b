"""Records in which every text tries to be more than text."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum

HOSTILE = '<script>alert("x")</script>&amp;\'|`$\\bad{$'
# These are checked when a record is made, so no file can bring anything else.
CHECKED = frozenset({"engine", "format", "unit"})


def make_hostile(value, name=""):
    """``value`` with ``HOSTILE`` behind every text in it; equal texts stay equal, so names still fit together."""
    if name in CHECKED or isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return value + HOSTILE
    if is_dataclass(value):
        changed = {field.name: make_hostile(getattr(value, field.name), field.name) for field in fields(value)}
        return replace(value, **changed)
    if isinstance(value, Mapping):
        keeps_keys = name == "workload"
        return {key if keeps_keys else make_hostile(key): make_hostile(item) for key, item in value.items()}
    return tuple(make_hostile(item) for item in value) if isinstance(value, tuple) else value
