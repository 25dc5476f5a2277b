"""Keeps captured catalog models between tests and workers, and out of the user's own cache."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def shared_cache(tmp_path_factory):
    """One cache of captured models for all workers of a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path_factory.getbasetemp().parent / "model-cache"))
        yield
