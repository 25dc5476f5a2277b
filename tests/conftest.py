"""Settings of all tests. It also puts this directory on the path, for ``builders``."""

import os

from hypothesis import settings

# Before torch is loaded, here and in every process that a test starts. Its threads wait for each other in busy loops:
# with as many workers as cores, a small layer takes fifty times as long on two threads as on one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run: a failure in CI is a failure here.
settings.register_profile("stable", derandomize=True, deadline=None, max_examples=60, print_blob=True)
settings.load_profile("stable")
