"""A command line that starts the server, read whole: what it serves, what it places, and what else it asks for.

Every option of SGLang-diffusion 0.5.23 is known by name (``known_options``). The server's parser is followed: the last
of several values wins, an unambiguous abbreviation is accepted but its value dropped, and what the command line says
beats the configuration file. Source: server arguments and the command line entry points of release 0.5.23.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from autotune.export.config_file import read_config_file
from autotune.export.file_values import MOST_SHOWN, write_as_words
from autotune.export.known_options import (
    GENERATE_OPTIONS,
    SERVE_OPTIONS,
    Follows,
    KnownOption,
    changes_nothing,
)
from autotune.export.option_values import refuse_usage, refuse_value
from autotune.export.sglang_options import ServerOptions, parse_options
from autotune.export.sglang_parser import PLACEMENT_OPTIONS, OptionParser
from autotune.export.shell_words import ShellCommand, split_command
from runtime.errors import UnsupportedError

PERFORMANCE_MODES = ("manual", "auto", "speed", "memory")

_QUALITIES = ("exact", "lossless", "high", "extra-high")

_TENSOR_PARALLEL = ("num_gpus", "tp_size")
# More than one of these is another way to use several GPUs than tensor parallelism.
_GPU_COUNTS = (
    "nnodes", "sp_degree", "ulysses_degree", "ring_degree", "kv_gather_degree",
    "cfg_parallel_degree", "dp_size", "encoder_tp", "denoiser_tp", "denoiser_sp", "denoiser_ulysses", "denoiser_ring",
    "decoder_sp",
)  # fmt: skip
# What the prediction reads by itself, besides placement.
_READ = frozenset(
    {
        "model_path", "performance_mode", "pin_cpu_memory", "use_fsdp_inference", "minimax_h3_adaln_online",
        "minimax_h3_adaln_plan_width", "minimax_h3_adaln_host_cache_gb", "width", "height", "num_frames", "quality",
        "enable_cfg_parallel", "gpu_ids", "disagg_role", *_TENSOR_PARALLEL, *_GPU_COUNTS,
    }
)  # fmt: skip
# Options with a component in their name, as the server's second parser reads them; each changes what is loaded or run.
_COMPONENT_PREFIXES = (
    "component-paths.", "component-weights-paths.", "component-quantizations.", "component-precisions.",
    "component-direct-gpu-weight-loading.", "component-quantization-ignored-layers.", "component-attention-backends.",
)  # fmt: skip
_COMPONENT_SUFFIXES = ("-path", "-quantization")
# Values that only the configuration file can hold, and its keys that hold options of a part.
_FILE_ONLY_FIELDS = frozenset(
    {
        "component_paths", "component_weights_paths", "component_quantizations", "component_precisions",
        "component_direct_gpu_weight_loading", "component_quantization_ignored_layers", "lora_target_modules",
        "boundary_ratio", "vae_config", "dit_config", "t5_config", "pipeline_config", "task_type",
    }
)  # fmt: skip
_RETIRED_FIELDS = {"decoder_tp": "decoder_sp", "warmup": "warmup_mode", "server_warmup": "warmup_mode"}
# The server reads many variables; these only say which card, which hub and how loud.
_VARIABLE_PREFIX = "SGLANG_"
_VARIABLES_WITHOUT_EFFECT = frozenset({"SGLANG_USE_MODELSCOPE", "SGLANG_LOGGING_CONFIG_PATH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """What one command asks the server for.

    Attributes:
        subcommand: ``serve`` or ``generate``.
        model_path: folder or hub repository.
        options: its placement options.
        performance_mode: one of ``PERFORMANCE_MODES``.
        pin_cpu_memory: whether host copies may be pinned.
        tp_size: ranks of tensor parallelism, which are all its GPUs.
        adaln_online: whether MiniMax-H3 rebuilds its adaLN outputs from the file.
        quality: quality level of the one request of ``generate``; None when it is left to each request.
        canvas: width, height and frames of that request, as far as they are given.
        given: every option besides placement -> its values, command line and configuration file together.
        environment: the assignments in front of the command.
        ignored: options that a prediction does not depend on.
        unmodelled: options and variables that change what the server does, which a prediction does not follow.
        unknown: what the server does not know; it does not start with an unknown option, and passes over a key.
        warnings: what the server would ignore in silence.
    """

    subcommand: str
    model_path: str
    options: ServerOptions
    performance_mode: str
    pin_cpu_memory: bool
    tp_size: int
    adaln_online: bool
    quality: str | None
    canvas: Mapping[str, int]
    given: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str]
    ignored: tuple[str, ...]
    unmodelled: tuple[str, ...]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...]

    def has_flags(self, flags: Sequence[str]) -> bool:
        """Whether the command gives every option of ``flags`` (names, each with at most one value) that value.

        A file counts by its name, wherever it lies.
        """
        wanted: dict[str, tuple[str, ...]] = {}
        name = ""
        for token in flags:
            if token.startswith("--"):
                name = token
                wanted[name] = ()
            else:
                wanted[name] = (token,)
        return all(
            tuple(PurePath(value).name for value in self.given.get(name, ())) == (values or ("true",))
            for name, values in wanted.items()
        )


@dataclass(slots=True)
class _Read:
    """What the command line and the configuration file give together, before it is judged."""

    values: dict[str, tuple[str, ...]]
    unmodelled: list[str]
    unknown: list[str]
    warnings: list[str]


def parse_command(text: str) -> ServerCommand:
    """Read ``text`` as the shell and the server would; only its configuration file is opened.

    Raises:
        FlagError: no such command, or one that the server refuses; a ``ServerOptionError`` says how.
        UnsupportedError: several GPUs that do not all divide the model, or another pipeline than the native one.
    """
    shell = split_command(text)
    known = {option.field: option for option in (SERVE_OPTIONS if shell.subcommand == "serve" else GENERATE_OPTIONS)}
    read = _read_arguments(shell.argv, known)
    if file := read.values.get("config", ("",))[0]:
        _add_file(read, read_config_file(file), known)
    _check_supported(read.values)
    return _judge(shell, read, known)


def _judge(shell: ShellCommand, read: _Read, known: Mapping[str, KnownOption]) -> ServerCommand:
    ignored: list[str] = []
    unmodelled = [*read.unmodelled, *_list_variables(shell.environment)]
    placement: list[str] = []
    for field, values in read.values.items():
        option = known[field]
        if option.name in PLACEMENT_OPTIONS:
            # Lists are split at commas, too, so one word says it all, whatever it begins with.
            placement.append(f"{option.name}={','.join(values)}")
        elif field not in _READ:
            (ignored if changes_nothing(option, values) else unmodelled).append(" ".join((option.name, *values)))
    options = parse_options(placement)
    return ServerCommand(
        subcommand=shell.subcommand,
        model_path=_find_model_path(read.values),
        options=options,
        performance_mode=_choose(read.values, "performance_mode", PERFORMANCE_MODES) or "auto",
        pin_cpu_memory=_is_on(read.values, "pin_cpu_memory", default=True),
        tp_size=_count(read.values, "tp_size"),
        adaln_online=_is_on(read.values, "minimax_h3_adaln_online", default=False),
        quality=_choose(read.values, "quality", _QUALITIES),
        canvas=MappingProxyType(_read_canvas(read.values)),
        given=MappingProxyType(
            {
                known[field].name: values
                for field, values in read.values.items()
                if known[field].name not in PLACEMENT_OPTIONS
            }
        ),
        environment=shell.environment,
        ignored=tuple(ignored),
        unmodelled=tuple(unmodelled),
        unknown=tuple(read.unknown),
        warnings=(*read.warnings, *options.warnings),
    )


def _read_arguments(argv: Sequence[str], known: Mapping[str, KnownOption]) -> _Read:
    namespace, rest = _build_parser(known.values()).parse_known(argv)
    by_name = {name: option for option in known.values() for name in option.names}
    typed = [word.partition("=")[0] for word in argv if word.startswith("--")]
    exact = {by_name[name].field for name in typed if name in by_name}
    read = _Read(values={}, unmodelled=[], unknown=[], warnings=[])
    for field, value in namespace.items():
        if field in exact:
            read.values[field] = _as_texts(known[field], value)
    for name in dict.fromkeys(typed):
        meant = [option for option in by_name if option.startswith(name)] if name not in by_name else []
        if len(meant) == 1 and name != "--":
            read.warnings.append(f"{name} abbreviates {meant[0]}: the server accepts it and ignores its value")
    _sort_rest(rest, by_name, read)
    return read


def _build_parser(options: Iterable[KnownOption]) -> OptionParser:
    parser = OptionParser(lambda message: refuse_usage(message[:MOST_SHOWN]), allow_abbrev=True)
    absent = argparse.SUPPRESS
    for option in options:
        match option.follows:
            case Follows.NOTHING:
                parser.add_argument(*option.names, dest=option.field, action="store_const", const="", default=absent)
            case Follows.TRUE_OR_FALSE:
                parser.add_argument(*option.names, dest=option.field, nargs="?", const="true", default=absent)
            case Follows.INTEGER | Follows.NUMBER:
                kind = int if option.follows is Follows.INTEGER else float
                parser.add_argument(*option.names, dest=option.field, type=kind, default=absent)
            case Follows.TEXT:
                parser.add_argument(*option.names, dest=option.field, default=absent)
            case _:
                nargs = "+" if option.follows is Follows.TEXTS else "*"
                parser.add_argument(*option.names, dest=option.field, nargs=nargs, default=absent)
    return parser


def _as_texts(option: KnownOption, value: object) -> tuple[str, ...]:
    """A parsed value as words; switches are checked as the server does while it parses."""
    if option.follows is Follows.NOTHING:
        return ()
    if isinstance(value, list):
        if not value and option.follows is not Follows.ANY_TEXTS:  # what Python's parser makes of `--option=--`
            raise refuse_usage(f"argument {option.name}: expected one argument")
        return tuple(value)
    text = str(value)
    if option.follows is Follows.TRUE_OR_FALSE:
        if text.lower() not in {"true", "false"}:
            raise refuse_value(f"{option.name} takes true or false, got {text[:MOST_SHOWN]!r}")
        return (text.lower(),)
    return (text,)


def _sort_rest(rest: Sequence[str], by_name: Mapping[str, KnownOption], read: _Read) -> None:
    """Put what the parser did not take where it belongs: options with a component's name, and unknown ones."""
    if rest and not rest[0].startswith("-"):
        raise refuse_usage(f"unrecognized argument {rest[0][:MOST_SHOWN]!r}")
    position = 0
    while position < len(rest):
        name = rest[position].partition("=")[0]
        end = position + 1
        while end < len(rest) and not rest[end].startswith("-"):
            end += 1
        words = " ".join(rest[position:end])
        position = end
        hyphenated = name.replace("_", "-")
        if hyphenated in by_name:
            raise refuse_usage(f"{name} is spelled {hyphenated} (hyphens)")
        if _names_component(hyphenated):
            read.unmodelled.append(f"{words[:MOST_SHOWN]} (read as an option of one component)")
        else:
            read.unknown.append(words[:MOST_SHOWN])


def _names_component(name: str) -> bool:
    bare = name.removeprefix("--")
    return bare != name and (bare.startswith(_COMPONENT_PREFIXES) or bare.endswith(_COMPONENT_SUFFIXES))


def _add_file(read: _Read, document: Mapping[str, Any], known: Mapping[str, KnownOption]) -> None:
    """Add what the file says and the command line does not."""
    retired = [key for key in document if key in _RETIRED_FIELDS]
    if retired:
        raise refuse_value(
            f"--config holds {retired[0]}, which the server has replaced by {_RETIRED_FIELDS[retired[0]]}"
        )
    for key, value in document.items():
        if key in known:
            if key not in read.values and value is not None:
                read.values[key] = write_as_words(known[key], value, is_read=key in _READ)
        elif key in _FILE_ONLY_FIELDS or key.partition(".")[0] in _FILE_ONLY_FIELDS:
            read.unmodelled.append(f"{key} of the configuration file")
        else:
            read.unknown.append(f"{key[:MOST_SHOWN]} of the configuration file")


def _count(values: Mapping[str, tuple[str, ...]], field: str) -> int:
    """The number behind ``field``, 1 where it is not given."""
    count = int(values.get(field, ("1",))[0])
    if count < 1:
        raise refuse_value(f"--{field.replace('_', '-')} is {count}: it must be 1 or more")
    return count


def _check_supported(values: Mapping[str, tuple[str, ...]]) -> None:
    counts = {f"--{field.replace('_', '-')}": _count(values, field) for field in _GPU_COUNTS}
    for option, count in counts.items():
        if count > 1:
            raise UnsupportedError(
                f"{option} is {count}: predictions are for one GPU, or for tensor parallel ranks; leave it out"
            )
    gpus, ranks = _count(values, "num_gpus"), _count(values, "tp_size")
    if gpus % ranks:
        raise refuse_value(f"--num-gpus is {gpus}: it must be divisible by --tp-size, {ranks}")
    if gpus > ranks:
        raise UnsupportedError(
            f"--num-gpus is {gpus} with --tp-size {ranks}: the server gives the rest to sequence or guidance parallel, "
            f"and predictions are for one GPU or for as many ranks as GPUs; add --tp-size {gpus}, or leave it out"
        )
    cards = [card for word in values.get("gpu_ids", ()) for card in word.split(",") if card]
    refused = {
        f"--gpu-ids names {len(cards)} GPUs": len(cards) > ranks,
        "--enable-cfg-parallel needs two GPUs": _is_on(values, "enable_cfg_parallel", default=False),
        "--use-fsdp-inference shards weights over GPUs": _is_on(values, "use_fsdp_inference", default=False),
    }
    for problem, applies in refused.items():
        if applies:
            raise UnsupportedError(f"{problem}: predictions are for one GPU; leave it out")
    if values.get("backend", ("auto",)) == ("diffusers",):
        raise UnsupportedError("--backend diffusers runs another pipeline: only the native one is predicted")
    role = values.get("disagg_role", ("monolithic",))[0]
    if role != "monolithic":
        raise UnsupportedError(
            f"--disagg-role {role[:MOST_SHOWN]}: only a server that runs the whole pipeline is predicted"
        )


def _find_model_path(values: Mapping[str, tuple[str, ...]]) -> str:
    path = values.get("model_path", ("",))[0]
    if not path.strip():
        raise refuse_usage("--model-path is missing: give the folder or the hub repository that is served")
    return path


def _choose(values: Mapping[str, tuple[str, ...]], field: str, choices: Sequence[str]) -> str | None:
    if field not in values:
        return None
    chosen = values[field][0]
    if chosen not in choices:
        raise refuse_usage(f"--{field.replace('_', '-')} {chosen[:MOST_SHOWN]!r} is none of {', '.join(choices)}")
    return chosen


def _is_on(values: Mapping[str, tuple[str, ...]], field: str, *, default: bool) -> bool:
    return values[field] == ("true",) if field in values else default


def _read_canvas(values: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    fields = {"width": "width", "height": "height", "num_frames": "frames"}
    return {name: int(values[field][0]) for field, name in fields.items() if field in values}


def _list_variables(environment: Mapping[str, str]) -> list[str]:
    return [
        f"{name}={value[:MOST_SHOWN]}"
        for name, value in environment.items()
        if name.startswith(_VARIABLE_PREFIX) and name not in _VARIABLES_WITHOUT_EFFECT
    ]


def explain_unknown(command: ServerCommand) -> list[str]:
    """One sentence for each thing that the server of the simulated version does not know."""
    sentences = []
    for words in command.unknown:
        if words.startswith("-"):
            sentences.append(f"{words!r} is unknown to the server of this version, which refuses to start with it")
        else:
            sentences.append(f"{words}: the server knows no such value and passes over it")
    return sentences
