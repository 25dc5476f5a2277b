"""How long everything lasts on an emulated device, as the cost model of a profile says. Imports torch."""

from __future__ import annotations

from autotune.cost_model import Cached, CostModel, view_hosting
from autotune.profile import Profile
from runtime.devices.link_rates import LinkRates, PageCache
from runtime.devices.protocol import Label
from runtime.engines.host_rules import PlanHosting
from runtime.engines.protocol import list_stacks
from runtime.plan import Plan

_PAGE_CACHES = {Cached.NOTHING: PageCache.NOTHING, Cached.STREAM: PageCache.STREAM, Cached.ALL: PageCache.ALL}


class Pace:
    """The pace of one plan.

    Args:
        profile: rates, and work of every layer.
        plan: which components stream: what does not is work outside of streamed layers.
        hosting: where layers wait; what is mapped shares the page cache as in predictions.

    Attributes:
        rates: of the links.
        interference: of copies and compute.
    """

    def __init__(self, profile: Profile, plan: Plan, hosting: PlanHosting) -> None:
        model, rates, views = profile.facts.model, profile.rates, view_hosting(hosting)
        self._costs = CostModel(profile.facts, rates).costs_of(plan, views)
        self._first_slots = {
            (model.components[ref.component].name, ref.name): ref.first_slot for ref in list_stacks(model)
        }
        self.interference = rates.interference
        self.rates = LinkRates(
            pinned_bytes_per_s=rates.pinned_bytes_per_s,
            pageable_bytes_per_s=rates.pageable_bytes_per_s,
            d2h_bytes_per_s=rates.d2h_bytes_per_s,
            disk_bytes_per_s=rates.disk_bytes_per_s,
            page_cache={
                component.name: _PAGE_CACHES[view[1]]
                for component, view in zip(model.components, views, strict=True)
                if view is not None
            },
        )

    def layer_s(self, label: Label) -> float:
        """Seconds of one run of a layer."""
        return self._costs.compute_s[self._first_slots[label.component, label.stack or ""] + (label.layer or 0)]

    def work_s(self, index: int) -> float:
        """Seconds of work outside of streamed layers, by its index in the request."""
        return self._costs.work_s[index]
