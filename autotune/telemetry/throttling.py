"""Names for NVML's reasons why a card's clocks are what they are, and which of them spoil a measurement.

Source: ``nvmlClocksEventReason*`` of nvidia-ml-py, one bit each; the last two it has by their former names alone,
``nvmlClocksThrottleReasonBoardLimit`` and ``nvmlClocksThrottleReasonReliability``.
"""

from __future__ import annotations

GPU_IDLE = "gpu_idle"

_REASON_OF_BIT = {
    0x1: GPU_IDLE,
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}

DISTURBING = frozenset(
    {
        "sw_power_cap",
        "hw_slowdown",
        "sw_thermal_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
        "board_limit",
        "reliability",
    }
)
"""Heat, power, voltage and hardware protection. An idle card and clocks that somebody set are no disturbance."""


def name_reasons(bits: int) -> tuple[str, ...]:
    """The reasons that ``bits`` name, lowest bit first; a bit that is not listed keeps its number."""
    found = (1 << position for position in range(bits.bit_length()) if bits >> position & 1)
    return tuple(_REASON_OF_BIT.get(bit, f"reason_{bit:#x}") for bit in found)
