"""Damaged plan files and profiles: one clear error, never anything else; what is accepted has no negative figure."""

import json
import random
from datetime import UTC, datetime

import pytest
from builders import build_component, build_facts
from planning_builders import SETTINGS, build_target

from autotune.profile import Profile, encode_profile, load_profile
from autotune.workflows.document import build_document
from autotune.workflows.planning import make_plan
from runtime.documents import encode_document
from runtime.errors import InputError
from runtime.plan_document import PLAN_KIND, load_plan

CASES = 700


@pytest.fixture(scope="module")
def saved():
    """The bytes of a plan and of a profile of a toy model."""
    facts = build_facts({"transformer": build_component(4, is_dit=True, passes=3)})
    target = build_target(20_000)
    profile = Profile(facts=facts, rates=target.rates, context_bytes=0, device=target.device)
    planned = make_plan(facts, target, SETTINGS)
    document = build_document(
        planned, profile, target, SETTINGS, command="autotune search", created=datetime(2026, 1, 1, tzinfo=UTC)
    )
    return encode_document(document), encode_profile(profile)


def damage(content, rng):
    """``content`` with bytes changed, cut or repeated, or with one value replaced."""
    kind = rng.randrange(4)
    position = rng.randrange(len(content))
    if kind == 0:
        return content[:position]
    if kind == 1:
        return content[:position] + bytes([rng.randrange(256)]) + content[position + 1 :]
    if kind == 2:
        return content[:position] + content[max(0, position - rng.randrange(1, 60)) : position] + content[position:]
    document = json.loads(content)
    replace_one(document, rng)
    return json.dumps(document).encode()


def replace_one(document, rng):
    """Replace one value somewhere in ``document``."""
    node = document
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.8:
            node = node[key]
            continue
        node[key] = rng.choice([-1, 0, 10**30, 1e308, "", None, [], {}, True, -0.5, "x" * 5000])
        return


@pytest.mark.parametrize("which", [0, 1])
def test_damaged_files_end_in_one_clear_error(saved, which, tmp_path):
    rng = random.Random(which)
    path, load = tmp_path / "saved.json", (load_plan, load_profile)[which]
    refused = 0
    for _ in range(CASES):
        path.write_bytes(damage(saved[which], rng))
        try:
            load(path)
        except InputError:
            refused += 1
    assert refused > CASES // 2


def find_numbers(node, path=()):
    """Where each number of a document is."""
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from find_numbers(value, (*path, key))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path


SIGNED = ("difference_s",)
"""A plan that is compared may be the faster one."""


def test_no_figure_of_a_plan_may_be_negative(saved):
    for path in find_numbers(json.loads(saved[0])):
        if path[-1] in SIGNED:
            continue
        changed = json.loads(saved[0])
        node = changed
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = -1
        with pytest.raises(InputError):
            PLAN_KIND.decode(json.dumps(changed).encode(), f"plan with {path} negative")


@pytest.mark.parametrize("load", [load_plan, load_profile])
def test_what_is_no_regular_file_is_not_read(load, tmp_path):
    with pytest.raises(InputError, match="no regular file"):
        load(tmp_path)
