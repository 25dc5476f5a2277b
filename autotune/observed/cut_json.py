"""Mends JSON that was cut off: what came before the cut is kept. Pure."""

from __future__ import annotations

_CLOSERS = {"{": "}", "[": "]"}


def mend_cut_json(text: str) -> str | None:
    """``text`` up to its last complete element, closed; None where nothing is complete or it is not cut JSON at all."""
    open_brackets: list[str] = []
    whole_up_to = 0
    closers = ""
    in_string = escaped = False
    for index, char in enumerate(text):
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in _CLOSERS:
            open_brackets.append(_CLOSERS[char])
        elif char in "}]":
            if not open_brackets or open_brackets.pop() != char:
                return None
            whole_up_to, closers = index + 1, "".join(reversed(open_brackets))
        elif char == "," and open_brackets:
            whole_up_to, closers = index, "".join(reversed(open_brackets))
    return text[:whole_up_to] + closers if open_brackets and whole_up_to else None
