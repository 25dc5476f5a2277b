"""The bytes of one copy: how many they are, and moving them on the CPU."""

from __future__ import annotations

import torch

from runtime.devices.protocol import Moves


def count_bytes(moves: Moves) -> int:
    """Bytes that ``moves`` write."""
    return sum(int(destination.nbytes) for destination, _ in moves)


def move_bytes(moves: Moves) -> None:
    """Copy every source into its destination, both on the CPU. Any thread may call it, in and out of inference mode."""
    # Tensors made in inference mode can be written nowhere else, and the others can be written there, too.
    with torch.inference_mode():
        for destination, source in moves:
            destination.copy_(source)
