"""How much memory this machine may still give: what the system says is available, under every cgroup limit."""

from autotune.host_memory.limits import MemoryLimit
from autotune.host_memory.memlock import MemlockLimit
from autotune.host_memory.namespaces import Namespaces
from autotune.host_memory.problems import Problem
from autotune.host_memory.reading import HostReading, read_host_memory

__all__ = ["HostReading", "MemlockLimit", "MemoryLimit", "Namespaces", "Problem", "read_host_memory"]
