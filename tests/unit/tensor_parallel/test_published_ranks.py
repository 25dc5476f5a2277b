"""Predictions of ranks beside public measurements of several cards (tests/data/public_measurements.csv).

The servers that were measured are older than the simulated one, or others; nothing here is fitted to these rows but the
share of its rate that an RTX 6000 Ada reaches in matrix products, which its preset takes from PM027.
"""

import pytest

from autotune.cost_model import CostModel
from autotune.evaluate import Evaluator
from autotune.hardware import find_device
from autotune.memory_model import MemoryModel, MemorySettings
from autotune.rates import derive_rates
from autotune.tensor_parallel.shard import shard_facts
from autotune.tensor_parallel.sharing import Sharing, share_host, share_rates
from runtime.engines.registry import DEFAULT_ENGINE, find_engine
from runtime.hosting import HostMemory
from runtime.plan import Placement, Plan
from runtime.residency import Mode
from runtime.units import GIB


def predict(facts, device, ranks, resident, host_gib=377):
    """A rank of everything streamed but the audio VAE, ``resident`` blocks of the DiT held."""
    card, own = find_device(device), shard_facts(facts, ranks)
    costs = CostModel(own, share_rates(derive_rates(card), ranks, Sharing()))
    memory = MemoryModel(own, MemorySettings(context_bytes=card.context_bytes, reserve_bytes=0))
    host = share_host(HostMemory(available_bytes=host_gib * GIB), ranks)
    evaluator = Evaluator(costs, memory, find_engine(DEFAULT_ENGINE), host)
    placements = [
        Placement(
            component=name,
            mode=Mode.RESIDENT if name == "audio_vae" else Mode.LAYERWISE_OFFLOAD,
            resident=resident if name == "transformer" else 0,
        )
        for name in (component.name for component in own.model.components)
    ]
    return evaluator.evaluate(Plan(engine=DEFAULT_ENGINE, placements=tuple(placements)))


def denoise_s(evaluation):
    return next(use.end_s - use.start_s for use in evaluation.uses if use.component == "transformer")


def test_two_rtx_5090_denoise_as_long_as_published(h3):
    evaluation = predict(h3, "rtx-5090", 2, 20)
    assert denoise_s(evaluation) == pytest.approx(525.05, rel=0.15)  # PM010: predicted 577 s
    assert evaluation.peak.charged_bytes / GIB == pytest.approx(26.3, rel=0.2)  # sampled peak: predicted 21.9


def test_two_rtx_5090_hold_what_one_cannot(h3):
    usable = find_device("rtx-5090").usable_vram_bytes
    assert (
        predict(h3, "rtx-5090", 1, 20).peak.charged_bytes > usable > predict(h3, "rtx-5090", 2, 20).peak.charged_bytes
    )


def test_two_rtx_6000_ada_denoise_as_long_and_hold_as_much_as_published(h3):
    evaluation = predict(h3, "rtx-6000-ada", 2, 20)
    assert denoise_s(evaluation) == pytest.approx(847.3, rel=0.16)  # PM026 to PM029: predicted 720 s
    assert evaluation.peak.charged_bytes / 2**20 == pytest.approx(23_369, rel=0.08)  # predicted 22,370 MiB


def test_four_ranks_save_what_four_cards_with_half_as_many_ranks_hold_more(h3):
    halves, quarters = (shard_facts(h3, ranks).model.component("transformer").run_bytes for ranks in (2, 4))
    # PM011, PM013: two ranks in two sequence groups share the encoder among all four cards, too.
    assert (halves - quarters) / 1e9 == pytest.approx(66.04 - 49.80, rel=0.03)


def test_ten_more_resident_blocks_on_four_ranks_cost_their_bytes_and_save_no_time(h3):
    block = shard_facts(h3, 4).model.component("transformer").stack("blocks").layers[0].run_bytes
    assert 10 * block / GIB == pytest.approx(2.9, rel=0.05)  # PM269
    forty, fifty = (predict(h3, "rtx-5090", 4, resident, host_gib=1007) for resident in (40, 50))
    assert denoise_s(fifty) == pytest.approx(denoise_s(forty), rel=0.01)
    # The server frees its two streamed layers where all are resident; the engine that was measured keeps its buffers.
    assert fifty.peak.live_bytes - forty.peak.live_bytes == 8 * block


def test_two_ranks_do_not_fit_a_host_of_125_gb_as_published(h3):
    assert predict(h3, "rtx-5090", 2, 20, host_gib=116).hosting.short_bytes > 0  # PM277: ended by the system
    assert predict(h3, "rtx-5090", 2, 20, host_gib=377).hosting.short_bytes == 0  # PM007: host of 377 GiB
