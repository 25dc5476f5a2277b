"""Writes a planning run into a folder: all files or none, and never over something that is there already."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
import pandas as pd

from autotune.exact import CurvePoint
from autotune.export.script import serve_script
from autotune.export.sglang import Export
from autotune.fidelity.calibrated_profile import CALIBRATED
from autotune.profile import Profile, encode_profile
from autotune.study_records import StudyResult
from autotune.workflows.run_frames import curve_frame, hosts_frame, trials_frame, uses_frame
from autotune.workflows.run_tables import CURVE_NAME, HOSTS_NAME, TRIALS_NAME, USES_NAME
from reports.markdown import describe_cards
from reports.run_data import HostPoint, RunData
from runtime.documents import encode_document, replace_file
from runtime.errors import InputError
from runtime.measurement_document import FILE_NAME as MEASUREMENT_NAME
from runtime.measurement_document import MeasurementDocument
from runtime.plan_document import PlanDocument
from runtime.prediction import Prediction, is_estimate
from runtime.units import format_gib


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """What a run folder is made of; there is no export of a plan for an engine that is no server."""

    document: PlanDocument
    profile: Profile
    curve: tuple[CurvePoint, ...]
    host_curve: tuple[HostPoint, ...]
    study: StudyResult | None
    export: Export | None
    model_path: str


RUN_FILES = frozenset(
    {
        "flags.txt",
        "plan.json",
        "profile.json",
        "report.html",
        "report.md",
        "report.pdf",
        "serve.sh",
        CURVE_NAME,
        HOSTS_NAME,
        MEASUREMENT_NAME,
        TRIALS_NAME,
        USES_NAME,
    }
)


def choose_folder(out: Path | None, model: str, now: datetime) -> Path:
    """``--out``, or a new folder under ``runs/`` named after the model and the time."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip(".-")[:60] or "model"
    return out if out is not None else Path("runs") / f"{name}-{now:%Y%m%d-%H%M%S}"


TABLE_FILES = frozenset({"table.csv"})


def check_folder(folder: Path, *, overwrite: bool, is_parent: bool = False, known: frozenset[str] = RUN_FILES) -> None:
    """Refuse a folder that cannot take a run, before any work is done; or a parent that cannot take such a folder.

    Raises:
        InputError: it is a file, holds anything but ``known`` files, holds some and ``overwrite`` is not set, or cannot
            be written.
    """
    try:
        if folder.is_symlink() and not folder.exists():
            raise InputError(f"--out {folder} is a link to nothing: name a folder")
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--out {folder} is a file: name a folder")
        names = {path.name for path in folder.iterdir()} if folder.exists() and not is_parent else set()
        foreign = sorted(names - known)
        if foreign:
            raise InputError(f"--out {folder} holds {foreign[0]!r}, which is no file of a run: name another folder")
        if names and not overwrite:
            raise InputError(f"--out {folder} holds a run: name another folder, or add --overwrite to replace it")
        _try_to_write_beside(folder.resolve())
    except OSError as error:
        raise InputError(f"cannot write to --out {folder}: {error.strerror or error}; name another folder") from error


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot take a file, before any work is done; it need not be there yet.

    Raises:
        InputError: it is no folder, or cannot be written or made.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is no folder: name one with --out")
        found = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
        with tempfile.TemporaryDirectory(dir=found, prefix=".layerstream-"):
            pass
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}; name a folder with --out") from error


def _try_to_write_beside(folder: Path) -> None:
    """Create and remove a folder where the draft of the run will be; existing parents only, the rest comes later."""
    parent = next(path for path in folder.parents if path.exists())
    with tempfile.TemporaryDirectory(dir=parent, prefix=".layerstream-"):
        pass
    if folder.exists() and folder.is_mount():
        raise OSError("it is a mount point and cannot be replaced")


def write_run(folder: Path, files: RunFiles, *, overwrite: bool) -> None:
    """Write every file beside the folder, then put it in place in one step.

    Raises:
        InputError: the folder is taken, or cannot be written.
    """
    check_folder(folder, overwrite=overwrite)
    _replace_folder(folder, lambda draft: _write_files(draft, files))


def write_table(folder: Path, records: Sequence[Mapping[str, object]], *, overwrite: bool) -> None:
    """Write a table of plans as ``table.csv`` in a folder of its own.

    Raises:
        InputError: the folder is taken, or cannot be written.
    """
    check_folder(folder, overwrite=overwrite, known=TABLE_FILES)
    text = pd.DataFrame(records).to_csv(index=False)
    _replace_folder(folder, lambda draft: (draft / "table.csv").write_text(text, encoding="utf-8"))


def write_files(folder: Path, files: Mapping[str, bytes], *, overwrite: bool, known: frozenset[str]) -> None:
    """Write ``files`` by name into a folder of their own, which may have held ``known`` ones.

    Raises:
        InputError: the folder is taken, or cannot be written.
    """
    check_folder(folder, overwrite=overwrite, known=known)

    def write(draft: Path) -> None:
        for name, content in files.items():
            (draft / name).write_bytes(content)

    _replace_folder(folder, write)


def _replace_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Put what ``write`` makes of an empty folder in the place of ``folder``."""
    target = folder.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".layerstream-") as draft_name:
            draft = Path(draft_name) / "run"
            draft.mkdir()
            write(draft)
            replaced = Path(draft_name) / "replaced"
            if target.exists():
                target.rename(replaced)
            try:
                draft.rename(target)
            except BaseException:  # an interrupt, too, must not lose the run that was there
                if replaced.exists() and not target.exists():
                    replaced.rename(target)
                raise
    except OSError as error:
        raise InputError(f"cannot write the run to {folder}: {error.strerror or error}") from error


def _write_files(folder: Path, files: RunFiles) -> None:
    # Drawing takes a library that is a second in the loading; commands that write no run do without.
    from reports.page.markdown import render_markdown  # noqa: PLC0415

    document, export, script = files.document, files.export, render_script(files)
    (folder / "plan.json").write_bytes(encode_document(document))
    (folder / "profile.json").write_bytes(encode_profile(files.profile))
    data = RunData(name=folder.name, plan=document, serve_script=script, host_curve=files.host_curve)
    (folder / "report.md").write_text(render_markdown(data), encoding="utf-8")
    if export:
        flags = [" ".join(option) for option in export.options()]
        (folder / "flags.txt").write_text("\n".join(flags) + "\n", encoding="utf-8")
        (folder / "serve.sh").write_text(script, encoding="utf-8")
        (folder / "serve.sh").chmod(0o755)
    for name, frame in (
        (TRIALS_NAME, trials_frame(files.study, document.plan)),
        (CURVE_NAME, curve_frame(files.curve, document)),
        (HOSTS_NAME, hosts_frame(files.host_curve)),
    ):
        (folder / name).write_text(frame.to_csv(index=False), encoding="utf-8")


def render_script(files: RunFiles) -> str:
    """The script that starts the server (``serve.sh``); empty for an engine that is none."""
    if files.export is None:
        return ""
    return serve_script(files.export, files.model_path, _script_comments(files.document))


def write_uses(measurement: MeasurementDocument, folder: Path) -> Path:
    """Write what every use and component took as ``uses.csv`` into ``folder``; an existing file is replaced whole.

    Raises:
        InputError: the file cannot be written.
    """
    path = folder / USES_NAME
    try:
        replace_file(path, uses_frame(measurement).to_csv(index=False).encode())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as JSON; an existing file is replaced whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no file: name a file to write or to replace")
        replace_file(path, msgspec.json.encode(value) + b"\n")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def _script_comments(document: PlanDocument) -> list[str]:
    prediction = document.prediction
    return [
        f"{document.model.name} on {document.device.title}, made by {document.program}",
        f"{_call(prediction)}: {prediction.latency_s:.1f} s a request, "
        f"{format_gib(prediction.peak.charged_bytes)} of VRAM{describe_cards(document.tp_size)}",
        f"device: {document.device.origin}",
        f"host memory: {document.host.origin}",
        f"plan: {document.command}",
    ]


def _call(prediction: Prediction) -> str:
    if prediction.source.startswith(CALIBRATED):
        return "predicted from observed runs"
    return "estimated" if is_estimate(prediction.source) else "predicted from measurements"
