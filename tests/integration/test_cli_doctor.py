"""``autotune doctor``: what is known of this machine, whatever is missing."""

import json
import re
import subprocess
import sys

import pytest
from fake_nvml import LOST, NOT_SUPPORTED, FakeCard, FakeNvml, big_card, mig_card, process, small_card, uuid_of
from profile_builders import build_model_profile
from trees import build_tree, gib, read_tree, stat_text

from autotune.cli.commands import doctor as command
from autotune.host_memory import read_host_memory
from autotune.measurements.store import ProfileStore
from autotune.telemetry.survey import Surroundings
from autotune.workflows.doctor import gather_machine
from runtime.units import GIB

LIST = "CUDA_VISIBLE_DEVICES"


@pytest.fixture
def diagnose(run_cli, monkeypatch, tmp_path):
    """``autotune doctor`` on a fake machine; returns standard output on one line, and at its own width."""

    def run(nvml, *, host=None, columns=120, arguments=(), **environ):
        host = host or read_tree(tmp_path)
        where = Surroundings(load_nvml=lambda: nvml, environ=environ, host=host)
        monkeypatch.setattr(command, "gather_machine", lambda profiles: gather_machine(where, profiles))
        monkeypatch.setenv("AUTOTUNE_PROFILE_DIR", str(tmp_path / "store"))
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, err = run_cli("doctor", *arguments)
        assert (code, err) == (0, "")
        return " ".join(out.split()), out

    return run


def test_a_machine_without_gpu_and_torch_is_a_normal_case():
    code = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "diffusers", "transformers", "pynvml", "sglang"}:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
sys.argv = ["autotune", "doctor"]
from autotune.cli import main
main()
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "pynvml is blocked" in finished.stdout
    assert "available to the server" in finished.stdout


def test_doctor_imports_no_torch():
    code = "import sys; sys.argv = ['autotune', 'doctor', '--json']; from autotune.cli.app import run; run(); "
    finished = subprocess.run(
        [sys.executable, "-c", code + "print('torch' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert finished.stdout.splitlines()[-1] == "False"


def test_the_card_in_use_is_shown_with_every_figure_and_its_source(diagnose):
    nvml = FakeNvml(small_card(), big_card(generation=1, used_bytes=3 * GIB, graphics=[process(77)]))
    words, _ = diagnose(nvml, **{LIST: uuid_of(0xB)})
    assert "GPU of this process: NVIDIA GeForce RTX 4090; named by its UUID in CUDA_VISIBLE_DEVICES." in words
    assert f"GPU NVIDIA GeForce RTX 4090, {uuid_of(0xB)}" in words
    assert "VRAM, usable 23.50 GiB NVML: the total less what the driver reserves" in words
    assert "PCIe, at most gen4 x16 NVML PCIe, now gen1 x16 NVML; in the present power state" in words
    assert "others hold 3.00 GiB of NVIDIA GeForce RTX 4090 (process 77). What to do: end them" in words


def test_several_cards_are_listed_with_a_mark(diagnose):
    _, out = diagnose(FakeNvml(small_card(), big_card()), columns=80, **{LIST: uuid_of(0xB)})
    listed = [line.split() for line in out.splitlines() if re.search(r"GPU-0000000[ab]$", line)]
    assert [line[-1] for line in listed] == ["GPU-0000000a", "GPU-0000000b"]
    assert ["yes" in line for line in listed] == [False, True]


@pytest.mark.parametrize(
    ("nvml", "environ", "expected"),
    [
        (FakeNvml(small_card(), big_card()), {}, "which GPU this process would use cannot be told"),
        (FakeNvml(big_card()), {LIST: ""}, "this process sees no GPU: CUDA_VISIBLE_DEVICES= shows 0 cards"),
        (FakeNvml(big_card(lost=True)), {}, "a GPU does not answer: nvmlDeviceGetHandleByIndex: GPU is lost"),
        (FakeNvml(init_error=LOST), {}, "no GPU is known: no NVIDIA driver answers"),
        (FakeNvml(FakeCard(title="NVIDIA GB10", total_bytes=0)), {}, "shares the host's memory: there is no link"),
        (FakeNvml(big_card(total_bytes=NOT_SUPPORTED)), {}, "the memory of NVIDIA GeForce RTX 4090 is unknown"),
        (FakeNvml(big_card(reasons=0x40)), {}, "is throttled: hw_thermal_slowdown"),
        (FakeNvml(big_card(utilization=98)), {}, "is 98.0 % busy"),
        (FakeNvml(big_card(max_lanes=4)), {}, "has a PCIe link of 4 lanes at the most"),
    ],
)
def test_every_problem_of_a_card_comes_with_a_remedy(diagnose, nvml, environ, expected):
    words, out = diagnose(nvml, **environ)
    problems = words.split("Problems:")[1].split(" - ")[1:]
    assert any(expected in problem for problem in problems)
    assert all(re.search(r"What to do: \S+ \S+", problem) for problem in problems)
    assert max(map(len, out.splitlines())) <= 120


def test_a_lost_card_is_no_reason_to_install_a_driver(diagnose):
    words, _ = diagnose(FakeNvml(big_card(lost=True)))
    assert "install NVIDIA's driver" not in words


def fail_to_import():
    raise ImportError("No module named 'pynvml'")


@pytest.mark.parametrize(
    ("load", "remedy", "installs_driver"),
    [
        (fail_to_import, "install the Python package nvidia-ml-py", False),
        (lambda: FakeNvml(init_error=LOST), "install NVIDIA's driver", True),
        (FakeNvml, "install NVIDIA's driver", True),
        (lambda: FakeNvml(mig_card()), "create an instance of it", False),
    ],
)
def test_a_driver_is_to_be_installed_only_where_none_answers_or_it_lists_no_card(
    tmp_path, load, remedy, installs_driver
):
    report = gather_machine(Surroundings(load_nvml=load, environ={}, host=read_tree(tmp_path)))
    [problem] = [each for each in report.problems if each.what.startswith("no GPU is known")]
    assert remedy in problem.remedy
    assert ("install NVIDIA's driver" in problem.remedy) is installs_driver


def test_a_quiet_machine_has_no_problems(diagnose):
    words, _ = diagnose(FakeNvml(big_card()))
    assert "No problems were found." in words


def test_stored_profiles_are_named_with_their_age_and_whether_they_are_valid(diagnose, tmp_path):
    words, _ = diagnose(FakeNvml(big_card()))
    assert "No profiles are stored: `autotune profile --model MODEL` measures" in words
    ProfileStore(tmp_path / "store").save_model(build_model_profile())
    words, _ = diagnose(FakeNvml(big_card()))
    assert "Profile of toy on emulated card" in words
    assert "today; valid here." in words


def test_host_limits_name_their_rule_and_the_servers_own_figure(diagnose, tmp_path):
    tree = build_tree(
        tmp_path / "limited",
        cgroup={
            "ctr/memory.max": gib(64),
            "ctr/memory.high": gib(48),
            "ctr/memory.current": gib(20),
            "ctr/memory.stat": stat_text(inactive_file=gib(6)),
        },
    )
    words, _ = diagnose(FakeNvml(big_card()), host=read_host_memory(tree))
    assert "binding limit 48.00 GiB memory.high of /sys/fs/cgroup/ctr" in words
    assert "headroom 34.00 GiB limit - (usage - inactive_file): inactive page cache counts as free" in words
    assert "available to the server 44.00 GiB the server's own rule" in words
    assert "it may pin more than it can have. What to do: start it with --no-pin-cpu-memory" in words


def test_a_limit_that_cannot_be_read_is_unknown_and_never_none(diagnose, tmp_path):
    host = read_tree(tmp_path / "damaged", cgroup={"ctr/memory.max": "garbage"})
    words, _ = diagnose(FakeNvml(big_card()), host=host)
    assert "binding limit unknown /sys/fs/cgroup/ctr/memory.max: 'garbage' is no number of bytes" in words
    assert "safe to plan with 0.00 GiB" in words


def test_a_mig_instance_is_shown_as_what_it_is(diagnose):
    words, _ = diagnose(FakeNvml(mig_card(10, 20)), **{LIST: uuid_of(0xC1, "MIG")})
    assert "MIG profile 2g.20gb" in words
    assert "VRAM 20.00 GiB" in words
    assert "busy unknown nvmlDeviceGetUtilizationRates: Not Supported" in words


def test_json_has_every_figure_its_source_and_the_problems(diagnose):
    _, out = diagnose(FakeNvml(big_card(temperature=NOT_SUPPORTED, reasons=0x4)), arguments=["--json"])
    report = json.loads(out)
    [gpu] = report["gpus"]["readings"]
    assert (gpu["total_bytes"], gpu["sources"]["total_bytes"], report["gpus"]["used"]) == (24 * GIB, "NVML", [0])
    assert gpu["temperature_c"] is None
    assert "Not Supported" in gpu["unknown"]["temperature_c"]
    assert report["host"]["safe_available_bytes"] == gib(200)
    assert [sorted(problem) for problem in report["problems"]] == [["remedy", "what"]]


def test_this_machine_can_be_diagnosed(run_cli):
    code, out, _ = run_cli("doctor")
    assert code == 0
    assert "python" in out
