"""Finds the layer of a component that computes most: the load beside which copies are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from autotune.catalog.built_component import ComponentBuilder
from autotune.measure.held_piece import hold_piece
from autotune.measure.interference import ComputeLoad
from autotune.measure.piece_capture import capture_run
from autotune.measure.piece_run import label_of
from autotune.measure.run_settings import RunSettings
from runtime.errors import InputError


def find_heaviest_layer(model: str, build: ComponentBuilder, settings: RunSettings) -> ComputeLoad:
    """The layer of the component that ``build`` makes; it comes to the device only where it is measured.

    Raises:
        InputError: the component runs no layer.
    """
    built = build()
    layers = [piece for piece in capture_run(built).pieces if piece.place.stack is not None]
    if not layers:
        raise InputError(f"{built.spec.name} of {model} runs no layer that copies could be measured beside")
    piece = max(layers, key=lambda piece: piece.work.flops)

    @contextmanager
    def put_on_device() -> Iterator[Callable[[], object]]:
        with hold_piece(piece, build().module.get_submodule(piece.place.path), settings) as held:
            yield held.run

    return ComputeLoad(
        # What is kept of a node goes with no options, and how a layer runs depends on them.
        key=f"{piece.digest}, {settings.options.describe()}",
        title=f"{model} {built.spec.name} {piece.place.name}",
        label=label_of(built.spec.name, piece.place),
        open=put_on_device,
    )
