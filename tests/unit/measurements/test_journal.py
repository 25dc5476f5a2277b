"""The journal: what was saved is there again, whatever happened since."""

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_builders import CARD, build_fingerprint, build_interference, build_link, build_record

from autotune.measurements.journal import Conditions, Journal, open_journal
from autotune.measurements.model_profile import RunOptions
from autotune.measurements.records import Conditions as DeviceConditions
from autotune.measurements.records import PieceRecord
from autotune.measurements.timing import Effort
from runtime.errors import ProfileError

CONDITIONS = Conditions(kind=CARD, versions={"torch": "2.13"}, options=RunOptions())


def fill(path, count=3):
    """A journal with ``count`` layers."""
    journal = Journal(path)
    for index in range(count):
        journal.remember(f"key {index}", build_record(f"blocks[{index}]"), Effort.DEFAULT)
    return path.read_bytes()


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("journal") / "journal.jsonl")


def test_every_kind_of_record_is_recalled_as_it_was(tmp_path):
    records = (build_record(), build_link(), build_interference())
    for record in records:
        Journal(tmp_path / "journal.jsonl").remember("key", record, Effort.DEFAULT)
    found = Journal(tmp_path / "journal.jsonl")
    assert tuple(found.recall(type(record), "key", Effort.DEFAULT) for record in records) == records
    assert found.problems == ()


@pytest.mark.parametrize("reasons", [None, (), ("sw_power_cap",)])
def test_unknown_reasons_to_throttle_are_recalled_apart_from_none(tmp_path, reasons):
    record = replace(build_record(), conditions=DeviceConditions(throttle_reasons=reasons))
    Journal(tmp_path / "journal.jsonl").remember("key", record, Effort.DEFAULT)
    assert Journal(tmp_path / "journal.jsonl").recall(PieceRecord, "key", Effort.DEFAULT) == record


def test_a_record_serves_where_less_effort_is_asked_for_and_not_where_more_is(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.remember("key", build_record(), Effort.DEFAULT)
    assert journal.recall(PieceRecord, "key", Effort.QUICK) is not None
    assert journal.recall(PieceRecord, "key", Effort.THOROUGH) is None
    assert journal.recall(PieceRecord, "another", Effort.QUICK) is None


def test_the_last_line_of_a_key_counts(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    for time_s in (1.0, 2.0):
        journal.remember("key", build_record(median_s=time_s), Effort.DEFAULT)
    found = Journal(journal.path).recall(PieceRecord, "key", Effort.DEFAULT)
    assert found is not None
    assert found.timing.median_s == 2.0


@given(data=st.data())
def test_any_prefix_of_the_file_yields_the_records_of_all_whole_lines(data, content, tmp_path_factory):
    end = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.mktemp("cut") / "journal.jsonl"
    path.write_bytes(content[:end])
    journal = Journal(path)
    whole = content[:end].count(b"\n")
    assert all(journal.recall(PieceRecord, f"key {index}", Effort.DEFAULT) for index in range(whole))
    # A line that lacks nothing but its end is whole too.
    has_rest = not content[:end].endswith(b"\n") and end > 0
    assert len(journal) - whole + len(journal.problems) == has_rest
    assert all("is torn" in problem for problem in journal.problems)


@given(data=st.data())
def test_a_damaged_line_is_named_and_costs_nothing_but_itself(data, content, tmp_path_factory):
    lines = content.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines[1]) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value not in (lines[1][at], 10)))
    path = tmp_path_factory.mktemp("damaged") / "journal.jsonl"
    path.write_bytes(lines[0] + lines[1][:at] + bytes([byte]) + lines[1][at + 1 :] + lines[2])
    journal = Journal(path)
    for index in (0, 2):
        assert journal.recall(PieceRecord, f"key {index}", Effort.DEFAULT) == build_record(f"blocks[{index}]")
    assert journal.recall(PieceRecord, "key 1", Effort.DEFAULT) in (None, build_record("blocks[1]"))
    assert all(problem.startswith("line 2 of the journal") for problem in journal.problems)


def test_what_follows_a_torn_line_is_not_lost_with_it(tmp_path, content):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content[:-20])
    Journal(path).remember("next", build_record(), Effort.DEFAULT)
    journal = Journal(path)
    assert len(journal) == 3
    assert journal.recall(PieceRecord, "next", Effort.DEFAULT) == build_record()
    assert len(journal.problems) == 1


def append_many(path, name):
    journal = Journal(Path(path))
    for index in range(50):
        journal.remember(f"{name} {index}", build_record(), Effort.DEFAULT)


def test_two_processes_that_append_at_once_keep_each_others_lines(tmp_path):
    path = tmp_path / "journal.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=append_many, args=(str(path), name)) for name in ("one", "two")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    journal = Journal(path)
    assert journal.problems == ()
    assert len(journal) == 100


def test_a_full_disk_loses_nothing_that_was_saved(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    fill(path)
    journal = Journal(path)

    def fail(file, line):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(ProfileError, match="No space left on device; make room"):
        journal.remember("new", build_record(), Effort.DEFAULT)
    assert journal.recall(PieceRecord, "new", Effort.DEFAULT) is None
    assert len(Journal(path)) == 3


def test_other_conditions_mean_another_file(tmp_path):
    others = (
        Conditions(kind=CARD, versions={"torch": "2.14"}, options=RunOptions()),
        Conditions(kind=CARD, versions={"torch": "2.13"}, options=RunOptions(compiled=True)),
        Conditions(kind=CARD, versions={"torch": "2.13"}, options=RunOptions(), node=build_fingerprint()),
    )
    names = {open_journal(tmp_path, conditions).path for conditions in (CONDITIONS, CONDITIONS, *others)}
    assert len(names) == 4


def test_a_line_of_an_unknown_kind_or_an_impossible_record_is_passed_over(tmp_path, content):
    line = json.loads(content.splitlines()[0])
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(line | {"kind": "poem"}) + "\n" + json.dumps(line | {"key": "forged"}) + "\n[]\n")
    journal = Journal(path)
    assert len(journal) == 0
    assert len(journal.problems) == 3


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(ProfileError, match="cannot read the journal"):
        Journal(tmp_path)


@pytest.mark.parametrize("trouble", ["a file in place of the folder", "a journal beyond any size"])
def test_a_journal_that_cannot_be_read_is_one_error_with_a_remedy(trouble, tmp_path):
    path = tmp_path / "journals" / "node-1.jsonl"
    if trouble.startswith("a file"):
        path.parent.touch()
    else:
        path.parent.mkdir()
        with path.open("wb") as file:
            file.truncate(2**32)  # holes: it takes no room
    with pytest.raises(ProfileError, match=r"cannot read the journal.*AUTOTUNE_PROFILE_DIR"):
        Journal(path)
