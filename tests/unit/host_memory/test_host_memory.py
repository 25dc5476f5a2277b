import os
from dataclasses import fields
from pathlib import Path

import pytest
from trees import V1_MOUNT, V2_MOUNT, build_tree, gib, meminfo, read_tree, stat_text, write_tree

from autotune.host_memory import read_host_memory
from autotune.host_memory.tree import read_regular_file
from runtime.hosting import spendable_pin_bytes
from runtime.units import GIB, MIB

M1_STAT = stat_text(
    anon=gib(1), file=gib(6), inactive_file=gib(4.5), active_file=gib(1.5), shmem=0, slab_unreclaimable=12345
)


def limit_file(limit, usage=GIB, *, name="ctr"):
    return {f"{name}/memory.max": limit, f"{name}/memory.current": usage}


def read_v1(root, own="5:memory:/a", **options):
    return read_tree(root, own=own, mounts=(V1_MOUNT,), **options)


def test_a_file_is_read_to_its_end_though_the_system_gives_a_page_at_a_time(tmp_path):
    content = b"x" * (2 * MIB + 5)
    (tmp_path / "mountinfo").write_bytes(content)
    found = read_regular_file(str(tmp_path / "mountinfo"), lambda descriptor, _: os.read(descriptor, 4096))
    assert found == content


def test_a_table_that_is_too_long_to_be_read_whole_is_unknown(tmp_path):
    reading = read_tree(tmp_path, mounts=(V2_MOUNT, "x" * (16 * MIB)), cgroup=limit_file(gib(8)))
    assert reading.safe_available_bytes == 0
    assert "/proc/self/mountinfo: longer than 16777216 bytes" in " ".join(reading.unknown)


def test_m1_the_parents_limit_binds_and_inactive_cache_is_credited(tmp_path):
    reading = read_tree(
        tmp_path,
        own="0::/pod/ctr",
        cgroup={
            "pod/memory.max": gib(8),
            "pod/memory.current": gib(7),
            "pod/memory.stat": M1_STAT,
            "pod/ctr/memory.max": "max\n",
            "pod/ctr/memory.current": gib(7),
            "pod/ctr/memory.stat": M1_STAT,
        },
    )
    assert reading.limit_bytes == gib(8)
    assert (reading.binding.directory, reading.binding.file) == ("/sys/fs/cgroup/pod", "memory.max")
    assert reading.strict_headroom_bytes == gib(1)
    assert reading.headroom_bytes == reading.available_bytes == reading.safe_available_bytes == gib(5.5)
    assert reading.os_available_bytes == gib(200)
    assert reading.total_bytes == gib(256)
    assert reading.server_available_bytes == gib(1)
    report = " ".join(reading.sources)
    assert "headroom 5.50 GiB by the working-set rule (limit - (usage - inactive_file))" in report
    assert "1.00 GiB strictly" in report
    assert reading.unknown == reading.warnings == ()
    assert spendable_pin_bytes(reading.available_bytes) == gib(3.5)


def test_m4_memory_high_below_memory_max_binds_and_is_said_to_throttle(tmp_path):
    reading = read_tree(
        tmp_path,
        cgroup={"ctr/memory.high": gib(4), **limit_file(gib(8), gib(3.5)), "ctr/memory.stat": stat_text(anon=gib(3.5))},
    )
    assert reading.binding.file == "memory.high"
    assert reading.available_bytes == reading.strict_headroom_bytes == gib(0.5)
    assert reading.server_available_bytes == gib(4.5)
    throttling, server = reading.warnings
    assert "memory.high of /sys/fs/cgroup/ctr binds at 4.00 GiB" in throttling
    assert "throttles" in throttling
    assert "the server takes 4.50 GiB" in server
    assert spendable_pin_bytes(reading.available_bytes) == 0


@pytest.mark.parametrize("sentinel", [9223372036854771712, 9223372036854710272])
def test_m5_a_b_v1_sentinels_are_no_limit(tmp_path, sentinel):
    reading = read_v1(tmp_path, cgroup={"memory/a/memory.limit_in_bytes": sentinel})
    assert reading.limit_bytes is None
    assert reading.unknown == ()
    assert reading.available_bytes == reading.server_available_bytes == gib(200)
    assert "no cgroup limits memory" in reading.sources
    assert reading.has_cgroups


def test_m5_c_v1_inherits_a_limit_that_only_memory_stat_shows(tmp_path):
    reading = read_v1(
        tmp_path,
        cgroup={
            "memory/a/memory.limit_in_bytes": 9223372036854771712,
            "memory/a/memory.usage_in_bytes": gib(3),
            "memory/a/memory.stat": stat_text(
                cache=gib(2), inactive_file=0, hierarchical_memory_limit=8589934592, total_inactive_file=gib(1)
            ),
        },
    )
    assert reading.limit_bytes == gib(8)
    assert reading.binding.file == "memory.stat (hierarchical_memory_limit)"
    assert (reading.strict_headroom_bytes, reading.headroom_bytes) == (gib(5), gib(6))


def test_m5_d_hybrid_takes_the_limit_from_the_v1_path(tmp_path):
    reading = read_tree(
        tmp_path,
        own="11:memory:/a/b\n1:name=systemd:/x.scope\n0::/x.scope",
        mounts=("41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw", V1_MOUNT),
        cgroup={
            "unified/x.scope/cgroup.procs": "1",
            "memory/x.scope/memory.limit_in_bytes": gib(1),
            "memory/x.scope/memory.usage_in_bytes": 0,
            "memory/a/b/memory.limit_in_bytes": gib(4),
            "memory/a/b/memory.usage_in_bytes": gib(1),
        },
    )
    assert reading.limit_bytes == gib(4)
    assert reading.binding.directory == "/sys/fs/cgroup/memory/a/b"
    assert reading.available_bytes == reading.server_available_bytes == gib(3)


def test_m5_e_a_private_namespace_has_its_limit_at_the_mount_root(tmp_path):
    reading = read_tree(tmp_path, own="0::/docker/abc", cgroup={"memory.max": gib(0.5), "memory.current": gib(0.25)})
    assert reading.limit_bytes == gib(0.5)
    assert reading.available_bytes == reading.server_available_bytes == gib(0.25)
    assert any("/docker/abc is not below the mount" in source for source in reading.sources)


def test_m5_f_a_host_namespace_has_it_at_the_full_path(tmp_path):
    reading = read_tree(tmp_path, own="0::/docker/abc", cgroup=limit_file(gib(0.5), 0, name="docker/abc"))
    assert reading.limit_bytes == reading.available_bytes == gib(0.5)
    assert reading.binding.directory == "/sys/fs/cgroup/docker/abc"


def test_m5_g_a_path_out_of_the_namespace_stays_inside_the_mount_and_is_unknown(tmp_path):
    tree = build_tree(tmp_path, own="0::/../other", cgroup={"memory.max": gib(2), "memory.current": gib(1)})
    write_tree(tree, {"sys/fs/other/memory.max": str(gib(0.125)), "sys/fs/other/memory.current": "0"})
    reading = read_host_memory(tree)
    assert reading.binding.directory == "/sys/fs/cgroup"
    assert (reading.limit_bytes, reading.available_bytes) == (gib(2), gib(1))
    assert reading.safe_available_bytes == 0
    assert "'/../other' leads out of the mount" in reading.unknown[0]


def test_m5_h_a_mount_point_with_an_escaped_space_is_found(tmp_path):
    mount = r"31 23 0:26 / /mnt/my\040cgroups rw master:4 - cgroup2 cgroup rw"
    tree = build_tree(tmp_path, mounts=(mount,))
    write_tree(tree, {"mnt/my cgroups/ctr/memory.max": gib(3), "mnt/my cgroups/ctr/memory.current": gib(1)})
    reading = read_host_memory(tree)
    assert reading.available_bytes == gib(2)
    assert reading.binding.directory == "/mnt/my cgroups/ctr"
    assert reading.server_available_bytes == gib(200)
    assert "the server takes 200.00 GiB" in reading.warnings[0]


def test_m5_i_without_proc_and_cgroups_the_systems_own_figure_is_all_there_is(tmp_path):
    reading = read_host_memory(tmp_path, os_available_bytes=gib(16))
    assert reading.available_bytes == reading.safe_available_bytes == gib(16)
    assert "cgroup limit: unknown, no cgroup was found" in reading.sources
    assert not reading.has_cgroups
    nothing = read_host_memory(tmp_path)
    assert (nothing.available_bytes, nothing.server_available_bytes, nothing.safe_available_bytes) == (None, None, 0)
    assert nothing.unknown == nothing.warnings == ()


def test_m7_a_less_available_than_the_reserve_leaves_nothing_to_spend(tmp_path):
    tree = write_tree(build_tree(tmp_path), {"proc/meminfo": meminfo(available_gib=1.2)})
    reading = read_host_memory(tree)
    assert reading.available_bytes == pytest.approx(gib(1.2), abs=1024)
    assert spendable_pin_bytes(reading.available_bytes) == 0


@pytest.mark.parametrize(
    ("limit", "usage"),
    [(gib(25.6), gib(46)), (gib(8), gib(9)), (0, 0), (0, gib(1))],
    ids=["b: 25.6 allowed, 46 used", "g: usage above limit", "h: limit 0", "h: limit 0, in use"],
)
def test_m7_b_g_h_an_overdrawn_limit_leaves_exactly_nothing_and_one_warning(tmp_path, limit, usage):
    reading = read_tree(tmp_path, cgroup=limit_file(limit, usage))
    assert reading.available_bytes == reading.headroom_bytes == reading.strict_headroom_bytes == 0
    assert reading.server_available_bytes == reading.safe_available_bytes == spendable_pin_bytes(0) == 0
    [warning] = reading.warnings
    assert "nothing is left under memory.max of /sys/fs/cgroup/ctr" in warning
    assert reading.unknown == ()


@pytest.mark.parametrize(
    ("files", "named", "reason"),
    [
        (limit_file(""), "memory.max", "empty"),
        (limit_file("garbage"), "memory.max", "'garbage' is no number"),
        (limit_file("-1"), "memory.max", "'-1' is no number"),
        (limit_file("1e9"), "memory.max", "'1e9' is no number"),
        ({"ctr/memory.max": gib(8)}, "memory.current", "missing, although the cgroup has a limit"),
        ({**limit_file(gib(8)), "ctr/memory.high": "4G"}, "memory.high", "'4G' is no number"),
        ({**limit_file(gib(8)), "ctr/memory.stat": "\0\0"}, "memory.stat", "is no entry"),
        ({**limit_file(gib(8)), "ctr/memory.stat": ""}, "memory.stat", "empty"),
    ],
)
def test_m7_c_d_f_what_cannot_be_understood_is_unknown_and_never_no_limit(tmp_path, files, named, reason):
    reading = read_tree(tmp_path, cgroup=files)
    [unknown] = reading.unknown
    assert unknown.startswith(f"/sys/fs/cgroup/ctr/{named}: ")
    assert reason in unknown
    assert reading.safe_available_bytes == 0
    assert not any("no cgroup limits memory" in source for source in reading.sources)
    [warning] = reading.warnings
    assert unknown in warning
    assert "nothing should be pinned; the server passes over such files" in warning


def test_m7_e_a_control_file_without_permission_is_unknown(tmp_path):
    def deny(path):
        if path.endswith("memory.max"):
            raise PermissionError(13, "Permission denied", path)
        return read_regular_file(path)

    reading = read_host_memory(build_tree(tmp_path, cgroup=limit_file(gib(8))), read=deny)
    assert reading.unknown[0] == "/sys/fs/cgroup/ctr/memory.max: Permission denied"
    assert reading.limit_bytes is None
    assert (reading.available_bytes, reading.safe_available_bytes) == (gib(200), 0)
    assert "cgroup limit: unknown" in reading.sources


def test_the_tightest_headroom_binds_where_the_server_takes_the_tightest_limit(tmp_path):
    """The inner limit is smaller, but the outer one has less left; the server never looks at the outer one."""
    cgroup = {**limit_file(gib(8), gib(2), name="pod/ctr"), **limit_file(gib(10), gib(9), name="pod")}
    reading = read_tree(tmp_path, own="0::/pod/ctr", cgroup=cgroup)
    assert reading.available_bytes == gib(1)
    assert reading.binding.directory == "/sys/fs/cgroup/pod"
    assert reading.server_available_bytes == gib(6)
    assert "the server takes 6.00 GiB of host memory for available, but only 1.00 GiB are" in reading.warnings[0]


def test_the_system_binds_where_it_has_less_than_the_cgroup(tmp_path):
    reading = read_tree(tmp_path, cgroup=limit_file(gib(500), gib(1)))
    assert reading.headroom_bytes == gib(499)
    assert reading.available_bytes == reading.server_available_bytes == gib(200)


def test_cache_beyond_usage_is_not_credited(tmp_path):
    reading = read_tree(
        tmp_path, cgroup={**limit_file(gib(8), gib(1)), "ctr/memory.stat": stat_text(inactive_file=gib(50))}
    )
    assert reading.headroom_bytes == gib(8)


def test_a_container_of_v1_sees_its_own_part_at_the_mount(tmp_path):
    mount = "32 31 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"
    reading = read_tree(
        tmp_path,
        own="4:memory:/docker/abc/inner",
        mounts=(mount,),
        cgroup={
            "memory/memory.limit_in_bytes": gib(4),
            "memory/memory.usage_in_bytes": gib(3),
            "memory/inner/memory.limit_in_bytes": gib(9),
            "memory/inner/memory.usage_in_bytes": gib(1),
        },
    )
    assert reading.binding.directory == "/sys/fs/cgroup/memory"
    assert reading.available_bytes == gib(1)


def test_the_mount_that_shows_the_own_path_is_preferred_to_an_earlier_one(tmp_path):
    elsewhere = "30 23 0:26 /other /mnt/other rw - cgroup2 cgroup rw"
    tree = build_tree(tmp_path, mounts=(elsewhere, V2_MOUNT), cgroup=limit_file(gib(4), gib(1)))
    write_tree(tree, {"mnt/other/memory.max": gib(1), "mnt/other/memory.current": "0"})
    assert read_host_memory(tree).available_bytes == gib(3)


def test_without_a_mount_table_the_usual_places_are_read(tmp_path):
    tree = build_tree(tmp_path, cgroup=limit_file(gib(4), gib(1)))
    (tree / "proc/self/mountinfo").unlink()
    assert read_host_memory(tree).available_bytes == gib(3)


def test_available_memory_above_the_total_is_the_hosts_and_free_memory_is_taken(tmp_path):
    tree = write_tree(build_tree(tmp_path), {"proc/meminfo": meminfo(available_gib=400, total_gib=16)})
    assert read_host_memory(tree).os_available_bytes == 1024 * 1024


@pytest.mark.parametrize("text", ["", "MemTotal: 1 kB\n", "MemTotal: x kB\nMemAvailable: -5 kB\n"])
def test_a_damaged_meminfo_is_unknown(tmp_path, text):
    reading = read_host_memory(write_tree(build_tree(tmp_path), {"proc/meminfo": text}))
    assert reading.unknown[0].startswith("/proc/meminfo: it has no Mem")
    assert reading.safe_available_bytes == 0


def test_a_pipe_in_the_place_of_a_file_is_unknown_and_does_not_hang(tmp_path):
    tree = build_tree(tmp_path, cgroup={"ctr/cgroup.procs": ""})
    os.mkfifo(tree / "sys/fs/cgroup/ctr/memory.max")
    assert read_host_memory(tree).unknown == ("/sys/fs/cgroup/ctr/memory.max: not a regular file",)


def test_a_group_whose_name_is_no_text_is_read_and_can_be_printed(tmp_path):
    tree = build_tree(tmp_path)
    (tree / "proc/self/cgroup").write_bytes(b"0::/b\xe9\n")
    directory = Path(os.fsdecode(os.fsencode(tree / "sys/fs/cgroup") + b"/b\xe9"))
    directory.mkdir(parents=True)
    (directory / "memory.max").write_text(str(gib(4)))
    (directory / "memory.current").write_text(str(gib(1)))
    reading = read_host_memory(tree)
    assert reading.available_bytes == gib(3)
    assert reading.sources[-1].encode("utf-8")


def test_this_machine_can_be_read():
    reading = read_host_memory()
    numbers = [getattr(reading, field.name) for field in fields(reading)]
    assert all(number >= 0 for number in numbers if isinstance(number, int))
