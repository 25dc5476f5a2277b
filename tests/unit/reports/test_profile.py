"""What a measured profile is of, in sentences."""

from dataclasses import replace

from builders import build_component, build_facts
from profile_builders import build_model_profile, one_piece_each

from reports.profile import describe_model_profile


def test_other_components_are_spoken_of_only_where_some_were_not_profiled():
    facts = build_facts({"encoder": build_component(1), "transformer": build_component(1, is_dit=True, passes=3)})
    whole = build_model_profile(facts=facts, **one_piece_each("encoder", "transformer"))
    assert describe_model_profile(whole)[-1] == "Profiled: encoder, transformer."
    part = replace(whole, **one_piece_each("transformer"))
    assert describe_model_profile(part)[-1] == "Profiled: transformer; compute of other components is estimated."
