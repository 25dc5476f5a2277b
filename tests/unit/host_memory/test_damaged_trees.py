"""Hundreds of damaged machines: whatever the files hold, a reading comes back and no figure is negative."""

import contextlib
import os
import random
import re
import shutil

import pytest
from trees import V1_MOUNT, V2_MOUNT, gib, meminfo, stat_text, write_tree

from autotune.host_memory import HostReading, read_host_memory
from autotune.host_memory.tree import read_regular_file
from runtime.errors import AutotuneError

SEEDS_PER_TEST = 100
FILES = {
    "proc/meminfo": meminfo(),
    "proc/self/cgroup": "7:cpu,memory:/a/b\n0::/pod/ctr\n",
    "proc/self/mountinfo": f"{V2_MOUNT}\n{V1_MOUNT}\n",
    **{
        f"sys/fs/cgroup/{directory}{name}": content
        for directory in ("", "pod/", "pod/ctr/")
        for name, content in {
            "memory.max": str(gib(8)),
            "memory.high": "max\n",
            "memory.current": str(gib(3)),
            "memory.stat": stat_text(anon=gib(1), file=gib(2), inactive_file=gib(1)),
        }.items()
    },
    **{
        f"sys/fs/cgroup/memory/{directory}{name}": content
        for directory in ("", "a/", "a/b/")
        for name, content in {
            "memory.limit_in_bytes": "9223372036854771712",
            "memory.usage_in_bytes": str(gib(3)),
            "memory.stat": stat_text(hierarchical_memory_limit=gib(5), total_inactive_file=gib(1)),
        }.items()
    },
}
TEXTS = (
    "", "\n", "max", "max max", "0", "-0", "-1", "+5", " 7 ", "1_000", "0x10", "1e308", "nan", "inf", "garbage",
    "max\0", "9" * 30, "9" * 41, "9" * 5000, "18446744073709551615", "9223372036854775807", "٣", "0::/", "0::", "::",
    ":::", "0::/../../..", "5:memory:/../x", "0::/" + "a/" * 3000, "0::/" + "n" * 300, "0::/a\0b",
    "0::pod", "9:memory:/\\040",
    "inactive_file -5", "inactive_file 99999999999999999999999", "total_inactive_file", "MemAvailable: 99999999999 kB",
    "MemTotal: 0 kB\nMemAvailable: 0 kB", "1 2 3:4 / / rw - cgroup2 cgroup2 rw", "1 2 3:4 / /.. rw - cgroup2 c rw",
    "1 2 3:4 / /\\000 rw - cgroup2 c rw", "1 2 3:4 / /sys/fs/cgroup rw - ",
    "1 2 3:4 /a/b/c/d /sys rw - cgroup c memory",
)  # fmt: skip


def damage_file(path, rng):
    """One kind of damage to ``path``."""
    kind = rng.choice(["text", "text", "bytes", "missing", "directory", "loop", "cut", "flip", "pipe", "dangling"])
    old = path.read_bytes()
    path.unlink()
    if kind == "text":
        path.write_text(rng.choice(TEXTS), encoding="utf-8")
    elif kind == "bytes":
        path.write_bytes(rng.randbytes(rng.randrange(200)))
    elif kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "dangling":
        path.symlink_to(path.parent / "nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "cut":
        path.write_bytes(old[: rng.randrange(len(old) + 1)])
    elif kind == "flip":
        at = rng.randrange(len(old))
        path.write_bytes(old[:at] + rng.randbytes(1) + old[at + 1 :])


def build_damaged_tree(root, rng):
    names = sorted(FILES)
    tree = write_tree(root, FILES)
    for name in rng.sample(names, rng.randrange(1, len(names))):
        damage_file(tree / name, rng)
    if rng.random() < 0.2:
        directory = tree / rng.choice(["sys/fs/cgroup/pod/ctr", "sys/fs/cgroup/memory/a/b"])
        directory.rename(directory.with_name("gone"))
        rng.choice([directory.mkdir, lambda: directory.symlink_to(directory), lambda: directory.write_text("file")])()
    return tree


def assert_sound(reading):
    assert isinstance(reading, HostReading)
    figures = [
        reading.total_bytes,
        reading.os_available_bytes,
        reading.limit_bytes,
        reading.strict_headroom_bytes,
        reading.headroom_bytes,
        reading.available_bytes,
        reading.server_available_bytes,
        reading.safe_available_bytes,
    ]
    assert all(figure is None or figure >= 0 for figure in figures)
    if reading.available_bytes is not None:
        assert reading.safe_available_bytes <= reading.available_bytes
    if reading.headroom_bytes is not None:
        assert reading.strict_headroom_bytes <= reading.headroom_bytes
    for text in (*reading.sources, *reading.unknown, *reading.warnings):
        assert text.encode("utf-8")
        assert not re.search(r"-[0-9.,]+ GiB", text)


@pytest.mark.parametrize("block", range(7))
def test_a_damaged_tree_gives_a_reading_without_negative_figures(tmp_path, block):
    for seed in range(block * SEEDS_PER_TEST, (block + 1) * SEEDS_PER_TEST):
        tree = build_damaged_tree(tmp_path / str(seed), random.Random(seed))
        with contextlib.suppress(AutotuneError):
            assert_sound(read_host_memory(tree))
        shutil.rmtree(tree)


def test_files_that_may_not_be_read_give_a_reading(tmp_path):
    tree = write_tree(tmp_path, FILES)
    for seed in range(SEEDS_PER_TEST):
        rng = random.Random(seed)

        def deny(path, rng=rng):
            if rng.random() < 0.3:
                raise rng.choice([PermissionError(13, "Permission denied"), OSError(19, "No such device")])
            return read_regular_file(path)

        assert_sound(read_host_memory(tree, read=deny))
