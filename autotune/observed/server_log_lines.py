"""The lines of SGLang-diffusion's log that this program knows, and what each says. Pure.

Settled in the sources of 0.5.14 to 0.5.23 (``layerwise_offload.py``, ``component_loader.py``, ``perf_logger.py``,
``schedule_batch.py``, ``logging_utils.py``). Lines begin with ``[month-day hour:minute:second]``, warnings and errors
are coloured, and what a container adds in front is ignored: every pattern may start anywhere in a line.

========================================  =========================================================================
``Layerwise offload ready for ...``       since 0.5.19; with the lifetime in brackets since 0.5.21
``... pins N of M layers ...``            since 0.5.19, one per stack of which not every layer is pinned; nothing else
``LayerwiseOffloadManager initialized``   up to 0.5.17, one per stack; with resident layers in 0.5.17; then
                                          ``Enabled layerwise offload for CLASS`` and at last the components by name
``[...Stage] finished in ...``            every request that is no warm-up
``Peak memory usage``                     torch's reserved memory in MiB
========================================  =========================================================================
"""

from __future__ import annotations

import re

_NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
_NAME = r"[A-Za-z_]\w{0,80}"
_STACK = rf"(?P<component>{_NAME})\.(?P<stack>[\w.]{{1,200}})"

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TOTALS = r"(?P<layers>\d{1,6}) layers"

LINES: dict[str, re.Pattern[str]] = {
    "arguments": re.compile(r"\bserver_args: (?P<json>\{.*)"),
    "loading": re.compile(r"Loading pipeline modules\.\.\."),
    "loaded": re.compile(rf"\bLoaded (?P<component>{_NAME}): {_NAME} \([^)]*version\)\. model size: (?P<where>.*)"),
    "configuring": re.compile(
        rf"Configuring layerwise offload for (?P<component>{_NAME})(?: \([^)]*\))?: (?P<stacks>.*)"
    ),
    "pins": re.compile(
        rf"Layerwise offload: {_STACK} pins (?P<pinned>\d{{1,6}}) of {_TOTALS} \((?P<gib>{_NUMBER}) GiB of "
        rf"(?P<spendable>{_NUMBER}) GiB spendable\)\. Of the rest, (?P<pageable>\d{{1,6}}) are copied into pageable "
        r"host memory and (?P<mapped>\d{1,6}) stay on the checkpoint mapping"
    ),
    "shared": re.compile(
        rf"Layerwise offload: {_STACK} keeps (?P<mapped>\d{{1,6}}) of {_TOTALS} on the checkpoint mapping .*; "
        r"(?P<pageable>\d{1,6}) layers without a mapping"
    ),
    "permanent": re.compile(
        rf"Layerwise offload: {_STACK} placed (?P<layers>\d{{1,6}}) permanent resident layers \({_NUMBER} GiB\)"
    ),
    "ready": re.compile(
        rf"Layerwise offload ready for (?P<component>{_NAME})(?: \([^)]*\))? in {_NUMBER}s: groups=\d+, "
        r"layers=(?P<layers>\d{1,6}), prefetch/group=(?P<prefetch>\d{1,6}(?:, \d{1,6})*), "
        r"resident=(?P<resident>\d{1,6})/(?P<total>\d{1,6})(?: \((?P<lifetimes>[a-z, ]+)\))?, "
        r"policy=(?P<policies>[a-z, ]+)"
    ),
    "stack_ready": re.compile(
        r"LayerwiseOffloadManager initialized with num prefetched layer: (?P<prefetch>\d{1,6}), "
        r"(?:num resident layers: (?P<resident>\d{1,6}), )?total num layers: (?P<layers>\d{1,6})"
    ),
    "class_ready": re.compile(rf"Enabled layerwise offload for (?P<name>{_NAME}) on modules: \[(?P<stacks>[^\]]*)\]"),
    "all_ready": re.compile(r"Enabled layerwise offload for pipeline components: \[(?P<names>[^\]]*)\]"),
    "serving": re.compile(r"The server is fired up and ready to roll!"),
    "sampling": re.compile(r"Sampling params:"),
    "sampling_value": re.compile(r"(?:^|\s)(?P<name>width|height|num_frames|infer_steps): (?P<value>-?\d{1,9})\s*$"),
    "stage": re.compile(rf"\[(?P<name>{_NAME})\] finished in (?P<seconds>{_NUMBER}) seconds"),
    "mean_step": re.compile(rf"\[{_NAME}\] average time per step: (?P<seconds>{_NUMBER}) seconds"),
    "total": re.compile(rf"Pixel data generated successfully in (?P<seconds>{_NUMBER}) seconds"),
    "peak": re.compile(rf"Peak memory usage: (?P<mib>{_NUMBER}) MB"),
    "ran_out": re.compile(r"OOM detected\. Possible solutions|OutOfMemoryError|CUDA out of memory"),
    "version": re.compile(
        r"\bsglang(?:[-_ ]version)?[ =:@/v]{1,4}"
        r"(?P<version>\d\.\d{1,3}\.\d{1,3}(?:\.?(?:post|rc|dev)\d{1,4})?)(?![.\d])",
        re.IGNORECASE,
    ),
}

# Words that every line of a kind has, to look for before a pattern is tried: logs have millions of other lines.
HINTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("server_args:", ("arguments",)),
    ("Loading pipeline", ("loading",)),
    ("model size:", ("loaded",)),
    ("ayerwise", ("configuring", "pins", "shared", "permanent", "ready", "stack_ready", "class_ready", "all_ready")),
    ("fired up", ("serving",)),
    ("Sampling params", ("sampling",)),
    ("width:", ("sampling_value",)),
    ("height:", ("sampling_value",)),
    ("num_frames:", ("sampling_value",)),
    ("infer_steps:", ("sampling_value",)),
    ("finished in", ("stage",)),
    ("time per step", ("mean_step",)),
    ("Pixel data", ("total",)),
    ("Peak memory", ("peak",)),
    ("OOM", ("ran_out",)),
    ("emory", ("ran_out",)),
    ("sglang", ("version",)),
    ("SGLang", ("version",)),
)

# What a line of a kind begins with; one that goes on otherwise is a fault to tell.
BROKEN = re.compile(r"Layerwise offload ready for|Layerwise offload: \S+ pins \d|Layerwise offload: \S+ placed \d")


def clean(line: str) -> str:
    """``line`` without colours."""
    return _ANSI.sub("", line)


def match_line(line: str) -> list[tuple[str, re.Match[str]]]:
    """Kind and match of everything known in ``line``: lines of several ranks can stand in one."""
    found: list[tuple[str, re.Match[str]]] = []
    for hint, kinds in HINTS:
        if hint in line:
            found += [(kind, match) for kind in kinds for match in LINES[kind].finditer(line)]
    return sorted(found, key=lambda item: item[1].start())
