"""Surveys of fake machines."""

import pytest
from trees import build_tree

from autotune.host_memory import read_host_memory
from autotune.telemetry.processes import OwnProcess
from autotune.telemetry.survey import Surroundings

OWN_PID = 4242


@pytest.fixture
def look(tmp_path):
    """Builds where a survey looks: fake NVML, fake torch, an environment, a host of 256 GiB."""
    host = read_host_memory(build_tree(tmp_path))

    def build(nvml, torch=None, *, own_pid_namespace=False, **environ):
        return Surroundings(
            load_nvml=lambda: nvml,
            torch=torch,
            environ=environ,
            host=host,
            own=OwnProcess(pid=OWN_PID, has_pid_namespace=own_pid_namespace, has_context=torch is not None),
        )

    return build
