"""By what the diffusion transformer of each catalog model is known: lists of layers and weights per layer.

Figures are those of the classes that the catalog reads; a test compares them with its facts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What tells one catalog model from the others.

    Attributes:
        model: its name in the catalog.
        dit_class: the class of its diffusion transformer in the library that the catalog reads.
        other_classes: names that released configurations give the same class.
        dits: how many of them a pipeline has.
        stacks: layers, and weights in each, of every list of the transformer.
    """

    model: str
    dit_class: str
    other_classes: tuple[str, ...] = ()
    dits: int = 1
    stacks: tuple[tuple[int, int], ...]


SIGNATURES: tuple[Signature, ...] = (
    Signature(
        model="H3",
        dit_class="MiniMaxH3Transformer3DModel",
        # SGLang-diffusion 0.5.23, runtime/models/dits/minimax_h3.py: its own name for the class.
        other_classes=("MiniMaxH3DiTModel",),
        stacks=((50, 645_571_840), (2, 385_362_688)),
    ),
    Signature(model="Qwen-Image", dit_class="QwenImageTransformer2DModel", stacks=((60, 339_831_296),)),
    Signature(model="FLUX.1-dev", dit_class="FluxTransformer2DModel", stacks=((19, 339_831_296), (38, 141_591_808))),
    Signature(model="Wan2.2-T2V-A14B", dit_class="WanTransformer3DModel", dits=2, stacks=((40, 351_394_304),)),
    Signature(model="Wan2.1-T2V-1.3B", dit_class="WanTransformer3DModel", stacks=((30, 46_440_704),)),
    Signature(
        model="Z-Image-Turbo",
        dit_class="ZImageTransformer2DModel",
        stacks=((30, 180_910_336), (2, 180_910_336), (2, 176_962_816)),
    ),
    Signature(
        model="HunyuanVideo",
        dit_class="HunyuanVideoTransformer3DModel",
        stacks=((20, 339_831_296), (40, 141_591_808), (2, 132_166_656)),
    ),
    Signature(model="LTX-2", dit_class="LTX2VideoTransformer3DModel", stacks=((48, 386_074_624),)),
)
