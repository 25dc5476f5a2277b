"""A run folder of a toy model, written by the program's own writers."""

from dataclasses import replace
from datetime import UTC, datetime

from builders import RATES, build_component, build_facts
from planning_builders import SETTINGS, build_target

from autotune.profile import PROFILE_KIND, Profile, encode_profile
from autotune.study import StudySettings
from autotune.study_sampler import SamplerName
from autotune.workflows.document import build_document
from autotune.workflows.emulated_execution import execute_emulated
from autotune.workflows.host_curve import find_host_curve
from autotune.workflows.measurement_record import build_measurement
from autotune.workflows.outputs import RunFiles, write_run, write_uses
from autotune.workflows.planning import make_plan
from autotune.workflows.run_settings import Emulation, Rounds
from runtime.measurement_document import save_measurement

SCRIPT = "#!/usr/bin/env bash\nexec sglang serve --model-path toy\n"
COMPONENTS = {
    "text_encoder": build_component(3, copy_ms=5.0, compute_ms=1.0, rest_ms=1.0),
    "transformer": build_component(6, copy_ms=6.0, compute_ms=4.0, passes=8, is_dit=True, activation_bytes=900),
    "vae": build_component(2, copy_ms=3.0, compute_ms=2.0, rest_ms=0.5, outside_ms=1.0),
}
CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def write_toy_run(folder, *, cap_bytes=28_000, trials=6, components=None):
    """Plan a toy model and write everything that a search writes but the page; returns document and files."""
    facts = build_facts(components or COMPONENTS, output_frames_bytes=700)
    target = build_target(cap_bytes, host_bytes=10**9)
    study = StudySettings(trials=trials, sampler=SamplerName.RANDOM, seed=1, storage=None, key="toy")
    planned = make_plan(facts, target, replace(SETTINGS, study=study))
    made = Profile(facts=facts, rates=RATES, context_bytes=0, device=target.device)
    profile = PROFILE_KIND.decode(encode_profile(made), "toy")  # whole numbers of toy models become floats, as in files
    document = build_document(planned, profile, target, SETTINGS, command="autotune search", created=CREATED)
    files = RunFiles(
        document=document,
        profile=profile,
        curve=planned.curve,
        host_curve=find_host_curve(facts, target, SETTINGS, [planned.solution.optimum]),
        study=planned.study,
        export=None,
        model_path="toy",
    )
    write_run(folder, files, overwrite=True)
    (folder / "serve.sh").write_text(SCRIPT)
    return files


def measure_toy_run(folder, files):
    """Execute the plan on the emulated device and write what ``autotune run`` does; returns the measurement."""
    rounds = Rounds(warmup=1, repeats=3)
    execution = execute_emulated(files.document, files.profile, Emulation(clock="virtual"), rounds, seed=3)
    measured = build_measurement(files.document, execution, rounds, seed=3, command="autotune run", created=CREATED)
    save_measurement(measured, folder)
    write_uses(measured, folder)
    return measured
