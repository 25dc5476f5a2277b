import pytest

from autotune.catalog import flux, hunyuan_video, minimax_h3, qwen_image, wan2_2_t2v_a14b, z_image
from autotune.conformance.defaults import RECORDED_MODELS

CATALOG = {
    "MiniMax-H3": minimax_h3.DEPLOYMENT,
    "Wan2.2-T2V-A14B": wan2_2_t2v_a14b.MODEL.deployment,
    "Qwen-Image": qwen_image.DEPLOYMENT,
    "FLUX.1-dev": flux.DEPLOYMENT,
    "HunyuanVideo": hunyuan_video.DEPLOYMENT,
    "Z-Image-Turbo": z_image.DEPLOYMENT,
}


@pytest.mark.parametrize("name", RECORDED_MODELS)
def test_the_catalog_has_the_deployment_that_reproduces_the_recorded_choices(name):
    assert CATALOG[name] == RECORDED_MODELS[name].deployment
