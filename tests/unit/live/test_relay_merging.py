"""Hints are merged by audience and topic, and bounded."""

from __future__ import annotations

import json

from live.relay import Merger


def a_hint(to: str = "org", topic: str = "jobs", ids: tuple[str, ...] = ("a",)) -> str:
    return json.dumps({"to": to, "topic": topic, "ids": list(ids)})


def test_hints_of_one_audience_and_topic_become_one() -> None:
    merger = Merger()
    for hint in (a_hint(ids=("b",)), a_hint(ids=("a", "b")), a_hint(to="other", ids=("c",))):
        merger.add(hint)
    assert merger.take() == [("org", "jobs", ["a", "b"]), ("other", "jobs", ["c"])]
    assert merger.take() == []


def test_a_hint_without_ids_means_all_and_swallows_the_others() -> None:
    merger = Merger()
    for hint in (a_hint(ids=("a",)), a_hint(ids=()), a_hint(ids=("b",))):
        merger.add(hint)
    assert merger.take() == [("org", "jobs", [])]


def test_more_than_fifty_ids_mean_all() -> None:
    merger = Merger()
    for number in range(51):
        merger.add(a_hint(ids=(f"{number:03d}",)))
    assert merger.take() == [("org", "jobs", [])]
