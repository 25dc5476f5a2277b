"""Settings of all tests. It also puts this directory on the path, for ``builders``."""

from hypothesis import settings

# The same examples in every run: a failure in CI is a failure here.
settings.register_profile("stable", derandomize=True, deadline=None, max_examples=60, print_blob=True)
settings.load_profile("stable")
