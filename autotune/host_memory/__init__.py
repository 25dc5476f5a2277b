"""How much memory this machine may still give: what the system says is available, under every cgroup limit."""

from autotune.host_memory.limits import MemoryLimit
from autotune.host_memory.reading import HostReading, read_host_memory

__all__ = ["HostReading", "MemoryLimit", "read_host_memory"]
