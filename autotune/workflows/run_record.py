"""The record of a run that is in memory: the same as ``run_collection`` reads from its folder."""

from __future__ import annotations

from autotune.workflows.outputs import RunFiles, render_script
from autotune.workflows.run_frames import curve_frame, trials_frame
from autotune.workflows.run_replay import replay_run
from autotune.workflows.run_tables import decode_curve, decode_trials
from reports.run_data import RunData


def describe_run(files: RunFiles, name: str) -> RunData:
    """Everything that ``files`` give, called ``name``; tables go through the text of their files, as if saved."""
    document = files.document
    components = tuple(placement.component for placement in document.plan.placements)
    curve = curve_frame(files.curve, document).to_csv(index=False).encode()
    trials = trials_frame(files.study, document.plan).to_csv(index=False).encode()
    replay = replay_run(document, files.profile)
    return RunData(
        name=name,
        plan=document,
        serve_script=render_script(files),
        curve=decode_curve(curve, components),
        host_curve=files.host_curve,
        trials=decode_trials(trials, components),
        timeline=replay.timeline,
        windows=replay.windows,
        stalls=replay.stalls,
        memory=replay.memory,
    )
