"""How much one layer, one pass and one use compute: counts read from the model's own classes, or measured seconds."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.errors import InputError
from runtime.units import MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Operations of one piece of a forward.

    Attributes:
        matmul_flops: floating-point operations of matrix products and convolutions (2 per multiply-add).
        attention_flops: operations of fused attention, ``2 * B * H * Lq * Lk * (Dk + Dv)``.
        matmul_bytes: bytes that the matrix products and convolutions read and write, weights included.
        other_bytes: bytes that every other operation reads and writes when each runs by itself (eager, no fusion).
        measured_s: seconds that were measured of what is not in these counts.
        exchange_bytes: bytes that the rank sends to, and as many receives from, the other ranks of tensor parallelism.
    """

    matmul_flops: float = 0.0
    attention_flops: float = 0.0
    matmul_bytes: float = 0.0
    other_bytes: float = 0.0
    measured_s: float = 0.0
    exchange_bytes: float = 0.0

    @property
    def flops(self) -> float:
        """All floating-point operations that run on the matrix units."""
        return self.matmul_flops + self.attention_flops

    def __add__(self, other: Work) -> Work:
        return Work(
            matmul_flops=self.matmul_flops + other.matmul_flops,
            attention_flops=self.attention_flops + other.attention_flops,
            matmul_bytes=self.matmul_bytes + other.matmul_bytes,
            other_bytes=self.other_bytes + other.other_bytes,
            measured_s=self.measured_s + other.measured_s,
            exchange_bytes=self.exchange_bytes + other.exchange_bytes,
        )

    def scaled(self, factor: float) -> Work:
        """The same work ``factor`` times."""
        return Work(
            matmul_flops=self.matmul_flops * factor,
            attention_flops=self.attention_flops * factor,
            matmul_bytes=self.matmul_bytes * factor,
            other_bytes=self.other_bytes * factor,
            measured_s=self.measured_s * factor,
            exchange_bytes=self.exchange_bytes * factor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """Work of one pass of a pass group: per stack per layer, and what runs outside the stacks in each pass."""

    layers: dict[str, tuple[Work, ...]]
    outside: Work = Work()


@dataclass(frozen=True, slots=True, kw_only=True)
class UseWork:
    """Work of one use.

    Attributes:
        component: the component in use.
        compute_dtype: dtype of the matrix products (``bfloat16``, ``float16``, ``float32``).
        groups: one per pass group of the request's use, in order.
        outside: work once per use, before its first pass.
        reserved_ratio: what the allocator reserves over ``activation_bytes``, where better known than in general.
        activation_bytes: the most that live activations occupy at any instant of the use, weights and buffers excluded.
    """

    component: str
    compute_dtype: str
    groups: tuple[GroupWork, ...]
    outside: Work = Work()
    activation_bytes: int = 0
    reserved_ratio: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.activation_bytes <= MAX_BYTES:
            raise InputError(
                f"{self.component}.activation_bytes is {self.activation_bytes}: bytes lie between 0 and 2^60"
            )
        if self.reserved_ratio is not None and not 1 <= self.reserved_ratio <= 10:
            raise InputError(f"{self.component}.reserved_ratio is {self.reserved_ratio}: it lies between 1 and 10")
