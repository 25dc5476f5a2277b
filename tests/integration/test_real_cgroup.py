"""A real cgroup beside this process's own: the limit that is set is the limit that a child reads."""

import contextlib
import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from autotune.host_memory.cgroups import Version, find_chains
from autotune.host_memory.tree import ControlFiles
from runtime.units import GIB, MIB

LIMIT_BYTES = 3 * GIB // 2
LIMIT_FILES = {Version.V1: "memory.limit_in_bytes", Version.V2: "memory.max"}
CHILD = """
import json, sys
sys.stdin.readline()
from autotune.host_memory import read_host_memory
held = bytearray(b"x") * int(sys.argv[1])
reading = read_host_memory()
print(json.dumps({
    "limit_bytes": reading.limit_bytes, "headroom_bytes": reading.headroom_bytes,
    "strict_headroom_bytes": reading.strict_headroom_bytes, "available_bytes": reading.available_bytes,
    "server_available_bytes": reading.server_available_bytes, "usage_bytes": reading.binding.usage_bytes,
    "directory": reading.binding.directory, "unknown": reading.unknown,
}))
"""


def find_parent():
    """Version and directory of the nearest cgroup of this process whose children already have the memory controller."""
    refusals = []
    for chain in find_chains(ControlFiles("")):
        for parent in map(Path, map(str, chain.directories)):
            refusal = refuse_parent(chain.version, parent)
            if not refusal:
                return chain.version, parent
            refusals.append(refusal)
    pytest.skip("; ".join(refusals) or "no cgroup hierarchy that can limit memory is mounted for this process")


def refuse_parent(version, parent):
    """Why no child of ``parent`` can have a limit; nothing where one can. Enabling a controller is not ours to do."""
    if not parent.is_dir():
        return f"{parent} is not there"
    if version is Version.V1:
        return ""
    control = parent / "cgroup.subtree_control"
    if not control.is_file():
        return f"{control} is not there"
    return "" if "memory" in control.read_text().split() else f"{control} does not list memory"


def make_group(parent):
    group = parent / f"autotune-test-{uuid.uuid4().hex[:12]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made below {parent}: {error.strerror}")
    return group


@pytest.fixture
def group():
    version, parent = find_parent()
    made = make_group(parent)
    try:
        try:
            (made / LIMIT_FILES[version]).write_text(str(LIMIT_BYTES))
        except OSError as error:
            pytest.skip(f"no limit can be set below {parent}: {error.strerror}")
        yield made
    finally:
        remove(made)


def remove(group):
    """A cgroup is busy until its last process is gone."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
    group.rmdir()


def read_inside(group, held_bytes):
    """What a process reads that lives in ``group`` and holds ``held_bytes``."""
    command = [sys.executable, "-c", CHILD, str(held_bytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            (group / "cgroup.procs").write_text(str(child.pid))
        except OSError as error:
            child.kill()
            pytest.skip(f"no process can be moved into {group}: {error.strerror}")
        out, _ = child.communicate("go\n", timeout=120)
    assert child.returncode == 0
    return json.loads(out)


def test_a_child_in_a_real_cgroup_reads_its_limit_and_headroom(group):
    seen = read_inside(group, 64 * MIB)
    assert seen["unknown"] == []
    assert seen["limit_bytes"] == LIMIT_BYTES
    assert Path(seen["directory"]).name == group.name
    assert seen["strict_headroom_bytes"] == LIMIT_BYTES - seen["usage_bytes"]
    assert seen["strict_headroom_bytes"] <= seen["headroom_bytes"] <= LIMIT_BYTES - 64 * MIB
    assert seen["available_bytes"] <= seen["headroom_bytes"]
    assert seen["server_available_bytes"] <= LIMIT_BYTES - 64 * MIB


def test_memory_that_is_held_there_lowers_the_headroom(group):
    little, much = (read_inside(group, held * MIB)["headroom_bytes"] for held in (16, 512))
    assert little - much == pytest.approx(496 * MIB, abs=32 * MIB)
