"""The schedule of a stack whose layers run in another order than they are registered in, once that order is known.

No server version has this: it copies by index and loads the rest blocking. Here the stream is topped up in the recorded
order, under both engines, within the bytes that the engine's own schedule would take, so that a plan's peak holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.program import Action, Block, Op

_H2D, _BLOCKING, _RUN, _RELEASE = int(Op.H2D), int(Op.H2D_BLOCKING), int(Op.RUN), int(Op.RELEASE)


class RecordedOrderStack:
    """Host-side state of one stack that runs its layers in ``order``, some of them perhaps more than once.

    Args:
        order: layers as one pass runs them.
        residents: layers that stay.
        permanent: whether they stay after a use, too.
        layer_bytes: of every layer of the stack.
        window_bytes: most bytes of streamed layers at one time; at least the largest of them.
        first_slot: slot of the stack's first layer.
        live: layers on the device now.
    """

    def __init__(
        self,
        order: Sequence[int],
        *,
        residents: frozenset[int],
        permanent: bool,
        layer_bytes: Sequence[int],
        window_bytes: int,
        first_slot: int,
        live: set[int],
    ) -> None:
        self.order = tuple(order)
        self.live = live
        self._residents = residents
        self._permanent = permanent
        self._layer_bytes = layer_bytes
        self._window_bytes = window_bytes
        self._first_slot = first_slot

    @property
    def holds_residents(self) -> bool:
        """Whether any layer of the stack is meant to stay."""
        return bool(self._residents)

    def host_state(self) -> tuple[frozenset[int], bool]:
        """All that decides what the host does next."""
        return frozenset(self.live), True

    def load(self) -> list[Action]:
        """Nothing: an order is known only after a pass."""
        return []

    def prepare(self) -> list[Action]:
        """Queue residents and the first window, in running order; what is in neither is released."""
        wanted = list(self._window(after=-1))
        missing = [layer for layer in dict.fromkeys(self.order) if layer in self._residents]
        actions = [self._release(layer) for layer in sorted(self.live - set(wanted) - self._residents)]
        for layer in [*missing, *wanted]:
            if layer not in self.live:
                self.live.add(layer)
                actions.append((_H2D, self._first_slot + layer))
        return actions

    def run_pass(self, *, last: bool = False) -> list[Block]:
        """One traversal; the window runs on into the next one, if there is one."""
        actions = self.prepare()
        for position, layer in enumerate(self.order):
            if layer not in self.live:
                self.live.add(layer)
                actions.append((_BLOCKING, self._first_slot + layer))
            coming = list(self._window(after=position, wraps=not last))
            for ahead in coming:
                if ahead not in self.live:
                    self.live.add(ahead)
                    actions.append((_H2D, self._first_slot + ahead))
            actions.append((_RUN, self._first_slot + layer))
            if layer not in self._residents and layer not in coming:
                actions.append(self._release(layer))
        return [Block(actions)]

    def end_use(self) -> list[Action]:
        """Release everything but permanent residents."""
        return [self._release(layer) for layer in sorted(self.live - (self._residents if self._permanent else set()))]

    def _release(self, layer: int) -> Action:
        self.live.discard(layer)
        return (_RELEASE, self._first_slot + layer)

    def _window(self, *, after: int, wraps: bool = True) -> Iterator[int]:
        """The streamed layers that run next, as many as fit beside the one that runs at position ``after``."""
        running = self.order[after] if after >= 0 else None
        room = self._window_bytes
        if running is not None and running not in self._residents:
            room -= self._layer_bytes[running]
        seen: set[int] = set()
        for layer in (*self.order[after + 1 :], *(self.order[: after + 1] if wraps else ())):
            if layer in self._residents or layer in seen:
                continue
            seen.add(layer)
            if layer != running:
                room -= self._layer_bytes[layer]
                if room < 0:
                    return
            yield layer
