"""Runs whose source does not show the request."""

import numpy as np
import pytest
from calibration_builders import build_prior
from comparison_builders import build_case, build_figure

from autotune.fidelity.reasons import list_reasons
from autotune.fidelity.unstated_request import doubt_request
from autotune.observed.observation import REQUEST_NOT_SHOWN

STATED = build_case("stated").observation
ASSUMED = build_case("assumed", assumed=(f"{REQUEST_NOT_SHOWN}; the table says 'likely'",)).observation


def test_stated_requests_change_nothing():
    prior = build_prior()
    assert doubt_request(prior, [STATED]) is prior


def test_one_assumed_request_makes_compute_and_activations_uncertain_together():
    prior = build_prior()
    doubted = doubt_request(prior, [STATED, ASSUMED])
    assert doubted.sd_of("compute.transformer") == pytest.approx(np.hypot(prior.sd_of("compute.transformer"), 0.5))
    assert doubted.sd_of("activations.vae") > prior.sd_of("activations.vae")
    assert doubted.sd_of("copy") == prior.sd_of("copy")
    first, second = (doubted.names.index(name) for name in ("compute.transformer", "activations.vae"))
    assert doubted.covariance[first][second] == pytest.approx(0.25)


def test_assumed_request_is_a_reason():
    case = build_case(assumed=ASSUMED.assumed)
    assert any(text.startswith(REQUEST_NOT_SHOWN) for text in list_reasons(case, build_figure()))
