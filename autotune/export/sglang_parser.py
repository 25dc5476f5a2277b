"""The placement options of the server's command line as an argument parser that leaves every other option alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

# knob -> its per-component map option
MAP_KNOBS = {
    "prefetch": "--layerwise-prefetch-size",
    "resident": "--layerwise-resident-layers",
    "policy": "--layerwise-residency-policy",
    "lifetime": "--layerwise-residency-lifetime",
}
# knob -> the option that sets it for all DiT components
DIT_KNOBS = {
    "prefetch": "--dit-offload-prefetch-size",
    "resident": "--dit-layerwise-resident-layers",
    "policy": "--dit-layerwise-residency-policy",
    "lifetime": "--dit-layerwise-residency-lifetime",
}
SWITCHES = {
    "dit_cpu_offload": "--dit-cpu-offload",
    "text_encoder_cpu_offload": "--text-encoder-cpu-offload",
    "image_encoder_cpu_offload": "--image-encoder-cpu-offload",
    "vae_cpu_offload": "--vae-cpu-offload",
    "dit_layerwise_offload": "--dit-layerwise-offload",
}
LISTS = {
    "component_residency": ("--component-residency",),
    "layerwise_offload_components": ("--layerwise-offload-components", "--layerwise-offload-modules"),
    "cpu_offload_components": ("--cpu-offload-components",),
}
PLACEMENT_OPTIONS = frozenset(
    {*MAP_KNOBS.values(), *DIT_KNOBS.values(), *SWITCHES.values()}.union(*(set(names) for names in LISTS.values()))
)


class OptionParser(argparse.ArgumentParser):
    """Raises the caller's error instead of ending the process."""

    def __init__(self, refuse_usage: Callable[[str], Exception], *, allow_abbrev: bool = False) -> None:
        super().__init__(prog="sglang serve", add_help=False, allow_abbrev=allow_abbrev)
        self._refuse_usage = refuse_usage

    def error(self, message: str) -> NoReturn:
        """Refuse the line."""
        raise self._refuse_usage(message)

    def parse_known(self, argv: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """(destination -> value of every option that was given, the tokens it does not know)."""
        namespace, unknown = self.parse_known_args(list(argv))
        return vars(namespace), unknown


def build_parser(refuse_usage: Callable[[str], Exception], refuse_value: Callable[[str], Exception]) -> OptionParser:
    """A parser whose usage errors and bad booleans become the exceptions that the two functions build.

    The server's switches take an optional ``true`` or ``false``; it reports another word later than its parser does.
    """

    def parse_switch(text: str) -> bool:
        if text.lower() not in {"true", "false"}:
            raise refuse_value(f"a switch takes true or false, got {text!r}")
        return text.lower() == "true"

    parser = OptionParser(refuse_usage)
    absent = argparse.SUPPRESS
    for destination, names in LISTS.items():
        parser.add_argument(*names, dest=destination, nargs="+", default=absent)
    for destination, name in SWITCHES.items():
        parser.add_argument(name, dest=destination, nargs="?", const=True, type=parse_switch, default=absent)
    for knob, name in MAP_KNOBS.items():
        parser.add_argument(name, dest=knob, default=absent)
    for knob, name in DIT_KNOBS.items():
        if knob in {"prefetch", "resident"}:
            parser.add_argument(name, dest=f"dit_{knob}", type=float, default=absent)
    parser.add_argument(DIT_KNOBS["policy"], dest="dit_policy", choices=("leading", "strided"), default=absent)
    parser.add_argument(DIT_KNOBS["lifetime"], dest="dit_lifetime", choices=("forward", "permanent"), default=absent)
    return parser


def option_of(token: str) -> tuple[str | None, bool]:
    """(the placement option that an unknown token means, whether it is only misspelled with underscores).

    The server does not know the underscore spelling. It accepts an unambiguous abbreviation, but decides which
    options were given by their full names and so drops its value.
    """
    name = token.partition("=")[0].replace("_", "-")
    if not name.startswith("--") or len(name) < len("--xx"):
        return None, False
    if name in PLACEMENT_OPTIONS:
        return name, True
    meant = [option for option in sorted(PLACEMENT_OPTIONS) if option.startswith(name)]
    return (meant[0], False) if len(meant) == 1 else (None, False)
