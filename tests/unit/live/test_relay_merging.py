"""Hints are merged by audience and topic, jobs by who may see them, and both are bounded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import psycopg

from live import relay
from live.publishing import COSTS, EVERYBODY, PLATFORM, prefixes_of, readers_below
from live.relay import Merger, Relay

NO_CONNECTION = cast(psycopg.Connection, None)


def a_hint(to: str = "org", topic: str = "quotas", ids: tuple[str, ...] = ("a",)) -> str:
    return json.dumps({"to": to, "topic": topic, "ids": list(ids)})


def heard(relay_: Relay) -> list[tuple[str, str, int]]:
    messages = relay_.messages(NO_CONNECTION)
    for audience, message in messages:
        assert message["stream"] == audience
        assert message.keys() == {"type", "stream", "seq", "topic", "at"}
    return [(audience, message["topic"], message["seq"]) for audience, message in messages]


def test_hints_of_one_audience_and_topic_become_one() -> None:
    merger = Merger()
    for hint in (a_hint(ids=("b",)), a_hint(ids=("a", "b")), a_hint(to="other", ids=())):
        merger.add(hint)
    assert merger.take() == ([("org", "quotas"), ("other", "quotas")], [])
    assert merger.take() == ([], [])


def test_jobs_are_gathered_by_id_whatever_their_organization() -> None:
    merger = Merger()
    for hint in (a_hint("org", "jobs", ("b",)), a_hint("other", "jobs", ("a", "b"))):
        merger.add(hint)
    assert merger.take() == ([], ["a", "b"])


def test_jobs_are_heard_of_by_their_readers_alone(monkeypatch: Any) -> None:
    """Planted and seen to die: by platform administrators once more, or by the organization."""
    asked: list[Sequence[str]] = []

    def readers(own: psycopg.Connection, ids: Sequence[str]) -> set[str]:
        asked.append(ids)
        return {f"reader of {one}" for one in ids if one != "gone"}

    monkeypatch.setattr(relay, "JOBS_PER_STATEMENT", 2)
    relay_ = Relay(readers)
    for one in ("a", "b", "gone"):
        relay_.merger.add(a_hint("org", "jobs", (one,)))
    assert heard(relay_) == [("reader of a", "jobs", 1), ("reader of b", "jobs", 1)]
    assert asked == [["a", "b"], ["gone"]]
    assert heard(relay_) == []


def test_each_audience_has_its_own_numbers() -> None:
    """One number for all would tell each how much happens elsewhere."""
    relay_ = Relay(lambda own, ids: set())
    relay_.merger.add(a_hint("org"))
    assert heard(relay_) == [("org", "quotas", 1), (PLATFORM, "quotas", 1)]
    relay_.merger.add(a_hint("other"))
    relay_.merger.add(a_hint(EVERYBODY, "clusters"))
    relay_.merger.add(a_hint(COSTS, "reports"))
    relay_.merger.add(a_hint("person-1", "rights"))
    assert heard(relay_) == [
        (COSTS, "reports", 1),
        (EVERYBODY, "clusters", 1),
        ("other", "quotas", 1),
        ("person-1", "rights", 1),
        (PLATFORM, "quotas", 2),
    ]


def test_a_full_relay_takes_before_it_gathers_more(monkeypatch: Any) -> None:
    monkeypatch.setattr(relay, "JOBS_GATHERED_MAX", 2)
    merger = Merger()
    merger.add(a_hint(topic="jobs", ids=("a",)))
    assert not merger.is_full
    merger.add(a_hint(topic="jobs", ids=("b",)))
    assert merger.is_full
    merger.take()
    assert not merger.is_full


def test_a_right_on_a_job_begins_at_one_of_its_prefixes() -> None:
    assert prefixes_of("ai/research/nlp/") == ["", "ai/", "ai/research/", "ai/research/nlp/"]
    assert readers_below("ai/") != readers_below("ai/research/")
    assert len(readers_below("x/" * 500)) < 60
