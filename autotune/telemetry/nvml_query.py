"""Single calls into NVML with their errors and impossible values translated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.telemetry.answers import Answer, Unknown, Value, describe_error

# "Not supported" and "function not found" of nvmlReturn_t; the latter is what a driver older than the module says.
_UNSUPPORTED_CODES = frozenset({3, 13})
# NVML_VALUE_NOT_AVAILABLE of both widths.
_NOT_AVAILABLE = frozenset({2**64 - 1, 2**32 - 1})


class NvmlQuery:
    """Calls of one library."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - a module that is not always there
        self.module = module

    def ask(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever the library returns, or Unknown
        """What ``name`` returns, or ``Unknown`` for whatever it raises."""
        return self.read(name, lambda found: found, *arguments)

    def read(self, name: str, convert: Callable[[Any], Value], *arguments: object) -> Answer[Value]:
        """What ``convert`` makes of what ``name`` returns; whatever either of them raises is ``Unknown``."""
        function = getattr(self.module, name, None)
        if function is None:
            return Unknown(reason=f"the installed nvidia-ml-py has no {name}", is_unsupported=True)
        try:
            return convert(function(*arguments))
        except Exception as error:
            code = getattr(error, "value", None)
            reason = f"{name}: {describe_error(error)}"
            return Unknown(reason=reason, is_unsupported=code in _UNSUPPORTED_CODES)

    def whole(self, name: str, *arguments: object) -> Answer[int]:
        """A whole number from 0 on."""
        return check_whole(self.ask(name, *arguments), name)

    def positive(self, name: str, *arguments: object) -> Answer[int]:
        """A whole number from 1 on: of this figure 0 can only mean that it is not known."""
        number = self.whole(name, *arguments)
        return Unknown(reason=f"{name} reports 0, which cannot be") if number == 0 else number

    def text(self, name: str, *arguments: object) -> Answer[str]:
        """A text that is not empty; older modules return bytes."""
        return check_text(self.ask(name, *arguments), name)


def check_whole(value: object, name: str) -> Answer[int]:
    """``value`` as a whole number from 0 on, or why it is none."""
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, int) or value < 0 or value in _NOT_AVAILABLE:
        return Unknown(reason=f"{name} reports no number")
    return value


def check_text(value: object, name: str) -> Answer[str]:
    """``value`` as a text that is not empty, or why it is none."""
    if isinstance(value, Unknown):
        return value
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str) or not text.strip():
        return Unknown(reason=f"{name} reports no text")
    return text.strip()
