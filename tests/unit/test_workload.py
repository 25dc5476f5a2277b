"""A request as words that can be typed."""

from dataclasses import asdict, replace

from autotune.workload import Recipe, Workload, list_options

REQUEST = Workload(width=64, height=32, frames=5, steps=3, prompt_tokens=7, batch=2, recipe=Recipe.EXACT)


def test_only_what_differs_from_the_default_is_typed():
    assert list_options(REQUEST, REQUEST) == ()
    default = replace(REQUEST, prompt_tokens=8, recipe=Recipe.DEFAULT)
    assert list_options(REQUEST, default) == ("--prompt-tokens", "7", "--recipe", "exact")


def test_without_a_default_all_of_it_is_typed():
    words = list_options(REQUEST, None)
    typed = {name[2:].replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    assert typed == {name: str(value) for name, value in asdict(REQUEST).items()}
