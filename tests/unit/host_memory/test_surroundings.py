"""What of the machine this process cannot see, what it may lock, and WSL."""

import pytest
from trees import build_tree, gib, write_tree

from autotune.host_memory import read_host_memory

INITIAL = {"cgroup": 4026531835, "pid": 4026531836, "user": 4026531837}
ALL_CAPABILITIES, NO_CAPABILITIES = "000001ffffffffff", "0000000000000000"
IPC_LOCK_ALONE = f"{1 << 14:016x}"
MEMLOCK = "Max locked memory         8388608              unlimited            bytes     \n"
OTHER_LIMITS = "Limit                     Soft Limit           Hard Limit           Units     \n"


def read(root, *, own=(), links=True, files=None, **options):
    tree = write_tree(build_tree(root, **options), files or {})
    if links:
        directory = tree / "proc/self/ns"
        directory.mkdir(parents=True)
        for name, inode in INITIAL.items():
            (directory / name).symlink_to(f"{name}:[{inode + 100 if name in own else inode}]")
    return read_host_memory(tree)


def read_locks(root, limits=MEMLOCK, capabilities=NO_CAPABILITIES, **options):
    files = {"proc/self/limits": OTHER_LIMITS + limits, "proc/self/status": f"Name:\tx\nCapEff:\t{capabilities}\n"}
    return read(root, files=files, **options).memlock


def test_the_machines_own_namespaces_are_told_from_a_containers(tmp_path):
    host = read(tmp_path / "host")
    assert (host.namespaces.has_own_cgroups, host.namespaces.has_own_pids, host.namespaces.has_own_users) == (
        False,
    ) * 3
    assert host.warnings == ()
    container = read(tmp_path / "container", own=("cgroup", "pid")).namespaces
    assert (container.has_own_cgroups, container.has_own_pids, container.has_own_users) == (True, True, False)
    assert container.describe() == "own cgroup, pid namespaces"


def test_namespaces_that_the_system_does_not_tell_are_unknown(tmp_path):
    reading = read(tmp_path, links=False)
    assert reading.namespaces.has_own_cgroups is None
    assert reading.namespaces.describe() == "unknown: the system does not tell"
    assert reading.unknown == reading.warnings == ()


@pytest.mark.parametrize("target", ["cgroup", "cgroup:[x]", "cgroup:[]", "/somewhere"])
def test_a_link_that_names_no_namespace_is_unknown(tmp_path, target):
    tree = build_tree(tmp_path)
    (tree / "proc/self/ns").mkdir()
    (tree / "proc/self/ns/cgroup").symlink_to(target)
    assert read_host_memory(tree).namespaces.has_own_cgroups is None


def test_a_cgroup_namespace_without_a_limit_is_a_warning_with_a_remedy(tmp_path):
    reading = read(tmp_path, own=("cgroup",))
    [problem] = reading.problems
    assert "cannot be seen" in problem.what
    assert "--host-memory" in problem.remedy
    assert reading.warnings == (problem.describe(),)


def test_a_cgroup_namespace_with_its_own_limit_is_a_note(tmp_path):
    reading = read(tmp_path, own=("cgroup",), cgroup={"ctr/memory.max": gib(8), "ctr/memory.current": gib(1)})
    assert reading.warnings == ()
    assert "limits above its root cannot be seen" in reading.sources[-1]


def test_the_limit_on_locked_memory_is_read_soft_and_hard(tmp_path):
    memlock = read_locks(tmp_path)
    assert (memlock.soft_bytes, memlock.hard_bytes, memlock.is_exempt) == (8 * 2**20, None, False)
    assert memlock.binds
    assert memlock.describe() == "soft 8.00 MiB, hard unlimited"


def test_an_unlimited_limit_does_not_bind(tmp_path):
    memlock = read_locks(tmp_path, "Max locked memory         unlimited            unlimited            bytes\n")
    assert (memlock.is_known, memlock.soft_bytes, memlock.binds) == (True, None, False)


@pytest.mark.parametrize("capabilities", [ALL_CAPABILITIES, IPC_LOCK_ALONE])
def test_the_capability_lifts_it_in_the_machines_user_namespace_alone(tmp_path, capabilities):
    assert read_locks(tmp_path / "a", capabilities=capabilities).is_exempt is True
    assert read_locks(tmp_path / "b", capabilities=capabilities, own=("user",)).is_exempt is False
    assert read_locks(tmp_path / "c", capabilities=capabilities, links=False).is_exempt is None
    assert not read_locks(tmp_path / "d", capabilities=capabilities).binds


@pytest.mark.parametrize(
    "limits", ["", "Max locked memory\n", "Max locked memory  x y bytes\n", "Max locked memory -1 5\n"]
)
def test_damaged_limits_are_unknown_and_limit_nothing_else(tmp_path, limits):
    memlock = read_locks(tmp_path / "tree", limits, "no number")
    assert (memlock.is_known, memlock.soft_bytes, memlock.is_exempt, memlock.binds) == (False, None, None, False)
    assert memlock.describe() == "unknown: the system does not tell"


@pytest.mark.parametrize(
    ("release", "is_wsl"),
    [("5.15.153.1-microsoft-standard-WSL2", True), ("4.4.0-19041-Microsoft", True), ("6.8.0-1008-azure", False)],
)
def test_wsl_is_told_by_the_kernels_release_and_warned_of(tmp_path, release, is_wsl):
    reading = read(tmp_path, files={"proc/sys/kernel/osrelease": release + "\n"})
    assert reading.is_wsl is is_wsl
    assert [problem.remedy for problem in reading.problems] == (
        ["plan with --no-pin-cpu-memory unless larger pins have been tried"] if is_wsl else []
    )


def test_wsl_is_unknown_without_a_release(tmp_path):
    assert read(tmp_path).is_wsl is None


def test_every_problem_has_a_remedy(tmp_path):
    readings = [
        read(tmp_path / "a", cgroup={"ctr/memory.max": "garbage"}),
        read(tmp_path / "b", cgroup={"ctr/memory.max": 0, "ctr/memory.current": 0}),
        read(
            tmp_path / "c",
            cgroup={"ctr/memory.max": gib(8), "ctr/memory.high": gib(4), "ctr/memory.current": gib(3)},
            files={"proc/sys/kernel/osrelease": "microsoft"},
        ),
    ]
    counts = [len(reading.problems) for reading in readings]
    assert counts == [1, 1, 3]
    assert all(problem.what and problem.remedy for reading in readings for problem in reading.problems)
