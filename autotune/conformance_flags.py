"""Check our reading of server command lines against a recorded one."""

from __future__ import annotations

from typing import Any

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


def check_flag_record(record: dict[str, Any]) -> list[str]:
    """Differences between ``record`` (one line of the flag cases) and what our parser says; empty when they agree."""
    names = list(record.get("components", _RECORDED_COMPONENTS))
    try:
        options = parse_options(record["argv"])
        found = {name: options.component(name) for name in names}
    except ServerOptionError as error:
        recorded_error = record.get("error")
        return [] if recorded_error == error.kind else [f"refused as {error.kind}, recorded {recorded_error}: {error}"]
    if "error" in record:
        return [f"accepted, recorded {record['error']}"]
    differences = []
    for name, recorded in record["components"].items():
        component = found[name]
        ours: dict[str, object] = {
            "mode": component.mode,
            "prefetch_value": component.prefetch_value,
            "resident_value": component.resident_value,
            "policy": component.policy,
            "lifetime": component.lifetime,
            "counts": {layers: list(component.counts(int(layers))) for layers in recorded["counts"]},
        }
        differences += [
            f"{name}.{key} is {ours[key]!r}, recorded {recorded[key]!r}" for key in ours if ours[key] != recorded[key]
        ]
    return differences
