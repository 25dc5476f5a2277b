"""Fake machines: the control files of a machine written under a directory."""

from autotune.host_memory import read_host_memory
from runtime.units import GIB

V2_MOUNT = "31 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw,nsdelegate"
V1_MOUNT = "32 31 0:29 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"


def gib(amount):
    return round(amount * GIB)


def meminfo(available_gib=200, total_gib=256):
    return (
        f"MemTotal: {gib(total_gib) // 1024} kB\nMemFree: 1024 kB\nMemAvailable: {gib(available_gib) // 1024} kB\n"
        "HugePages_Total:       0\n"
    )


def stat_text(**entries):
    return "".join(f"{name} {value}\n" for name, value in entries.items())


def write_tree(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(content) if isinstance(content, int) else content, encoding="utf-8")
    return root


def build_tree(root, *, own="0::/ctr", mounts=(V2_MOUNT,), cgroup=None):
    """A machine with 200 GiB available; ``cgroup`` is path under /sys/fs/cgroup -> content."""
    tree = {"proc/meminfo": meminfo(), "proc/self/cgroup": own + "\n", "proc/self/mountinfo": "\n".join(mounts) + "\n"}
    tree |= {f"sys/fs/cgroup/{name}": content for name, content in (cgroup or {}).items()}
    return write_tree(root, tree)


def read_tree(root, **options):
    return read_host_memory(build_tree(root, **options))
