"""Reproduces how the server reads a command line."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.conformance.difference import FieldDifference, compare_values
from autotune.conformance.records import FlagRecord
from autotune.export.sglang_options import ServerOptionError, parse_options

# The components whose knobs the recorder asked for when it recorded a refusal.
_RECORDED_COMPONENTS = (
    "transformer",
    "transformer_2",
    "text_encoder",
    "text_encoder_2",
    "image_encoder",
    "vae",
    "video_vae",
    "audio_vae",
    "vocoder",
    "connectors",
)


def check_flags(record: FlagRecord) -> Iterator[FieldDifference]:
    """Read the recorded command line with our parser and yield what differs."""
    try:
        options = parse_options(record.argv)
        found = {name: options.component(name) for name in record.components or _RECORDED_COMPONENTS}
    except ServerOptionError as error:
        yield from compare_values("error", record.error, str(error.kind))
        return
    yield from compare_values("error", record.error, None)
    for name, recorded in record.components.items():
        ours = found[name]
        for knob in ("mode", "prefetch_value", "resident_value", "policy", "lifetime"):
            yield from compare_values(f"components.{name}.{knob}", getattr(recorded, knob), getattr(ours, knob))
        for layers, counts in recorded.counts.items():
            yield from compare_values(f"components.{name}.counts.{layers}", counts, tuple(ours.counts(layers)))
