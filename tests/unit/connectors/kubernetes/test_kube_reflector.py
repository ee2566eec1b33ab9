"""A collection that is kept up to date by list and watch, step by step and without threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from builders.kube_objects import an_object
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.client.api import Event, Forbidden, Gone, KubeList, NotFound
from connectors.kubernetes.informers.reflector import LIST_EVERY_S, SILENT_S, Reflector

Json = dict[str, Any]


class AWatch:
    """Tells its events, and then ends or fails."""

    def __init__(self, events: list[Event | Exception]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Event]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event

    def close(self) -> None:
        pass


@dataclass
class AServer:
    """What it lists, and what each watch tells, in turn. `asked` is what it was asked for."""

    lists: list[KubeList | Exception] = field(default_factory=list)
    watches: list[list[Event | Exception]] = field(default_factory=list)
    now_version: int = 1_000
    asked: list[str] = field(default_factory=list)

    def list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList:
        self.asked.append("list")
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def watch(self, path: str, *, labels: str = "", fields: str = "", resource_version: str) -> Any:
        self.asked.append(f"watch from {resource_version}")
        return AWatch(self.watches.pop(0))

    def version(self, path: str) -> int:
        self.asked.append("version")
        return self.now_version


@dataclass
class AClock:
    """Seconds that pass when told."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def a_list(version: int, *items: Json) -> KubeList:
    return KubeList(list(items), str(version), 0)


def a_reflector(server: AServer, **values: Any) -> Reflector:
    return Reflector(server, "/things", **values)


def versions(reflector: Reflector) -> dict[str, str]:
    """Versions by uid of what it knows, fresh."""
    return {
        one["metadata"]["uid"]: one["metadata"]["resourceVersion"]
        for one in reflector.snapshot(wait_s=0)
    }


def follow(reflector: Reflector) -> Exception | None:
    """One turn of its thread; what ended it."""
    try:
        reflector._follow()
    except Exception as error:
        return error
    return None


def test_a_list_and_what_follows_it() -> None:
    changes: list[tuple[str, str]] = []

    def changed(before: Json | None, now: Json | None) -> None:
        both = [one and one["metadata"]["resourceVersion"] for one in (before, now)]
        changes.append((str(both[0]), str(both[1])))

    server = AServer(
        [a_list(5, an_object("a", version=2), an_object("b", version=3))],
        [
            [
                Event("MODIFIED", an_object("a", version=6)),
                Event("ADDED", an_object("c", version=7)),
                Event("DELETED", an_object("b", version=8)),
                Event("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
            ],
            [],
        ],
    )
    reflector = a_reflector(server, changed=changed)
    with pytest.raises(ClusterUnavailable, match="was not listed yet"):
        reflector.snapshot(wait_s=0)
    assert follow(reflector) is None
    assert versions(reflector) == {"a": "6", "c": "7"}
    assert follow(reflector) is None
    assert server.asked == ["list", "watch from 5", "watch from 9"]
    assert changes == [("None", "2"), ("None", "3"), ("2", "6"), ("None", "7"), ("8", "None")]


def test_a_410_inside_the_stream_begins_anew_with_a_list() -> None:
    """What was deleted while nobody watched is gone.

    Mutant: the 410 ended the watch like any other end; it was resumed from the same place for
    ever, and what had been deleted stayed.
    """
    server = AServer(
        [a_list(5, an_object("a", version=2)), a_list(90, an_object("b", version=80))],
        [[Gone(410, "Expired", "too old resource version")], []],
    )
    reflector = a_reflector(server)
    error = follow(reflector)
    assert isinstance(error, Gone)
    reflector._failed(error)
    assert follow(reflector) is None
    assert versions(reflector) == {"b": "80"}
    assert server.asked == ["list", "watch from 5", "list", "watch from 90"]


def test_a_dropped_watch_goes_on_from_where_it_was() -> None:
    server = AServer(
        [a_list(5)],
        [[Event("ADDED", an_object("a", version=6)), ClusterUnavailable("dropped")], []],
    )
    reflector = a_reflector(server)
    error = follow(reflector)
    assert error is not None
    reflector._failed(error)
    with pytest.raises(ClusterUnavailable, match="dropped"):
        reflector.snapshot(wait_s=0)
    assert follow(reflector) is None
    assert versions(reflector) == {"a": "6"}
    assert server.asked == ["list", "watch from 5", "version", "watch from 6"]


def test_a_server_that_was_restored_is_listed_anew() -> None:
    """From a version that it has not reached yet, it would say nothing."""
    server = AServer(
        [a_list(500, an_object("a", version=400)), a_list(300, an_object("a", version=200))],
        [[ClusterUnavailable("dropped")], []],
        now_version=300,
    )
    reflector = a_reflector(server)
    error = follow(reflector)
    assert error is not None
    reflector._failed(error)
    assert follow(reflector) is None
    assert versions(reflector) == {"a": "200"}


def test_the_whole_list_is_compared_from_time_to_time() -> None:
    clock = AClock()
    server = AServer([a_list(5, an_object("a")), a_list(6)], [[], [], []])
    reflector = a_reflector(server, monotonic_s=clock)
    follow(reflector)
    clock.now_s = LIST_EVERY_S
    follow(reflector)
    clock.now_s = LIST_EVERY_S + 1
    follow(reflector)
    assert server.asked == ["list", "watch from 5", "watch from 5", "list", "watch from 6"]
    assert versions(reflector) == {}


def test_a_watch_that_is_silent_for_too_long_is_not_believed() -> None:
    clock = AClock()
    reflector = a_reflector(AServer([a_list(5)], [[]]), monotonic_s=clock)
    follow(reflector)
    clock.now_s = SILENT_S
    assert versions(reflector) == {}
    clock.now_s = SILENT_S + 1
    with pytest.raises(ClusterUnavailable):
        reflector.snapshot(wait_s=0)


def test_what_was_just_written_is_known_at_once() -> None:
    server = AServer([a_list(5)], [[], [Event("MODIFIED", an_object("a", version=7))]])
    reflector = a_reflector(server)
    follow(reflector)
    reflector.offer(an_object("a", version=8))
    assert versions(reflector) == {"a": "8"}
    follow(reflector)
    assert versions(reflector) == {"a": "8"}
    reflector.offer(an_object("a", version=6))
    assert versions(reflector) == {"a": "8"}


def test_what_was_written_while_a_list_was_on_its_way_stays() -> None:
    """Mutant: a list dropped all that it lacks; what had just been created was absent."""
    server = AServer([a_list(5, an_object("old", version=2)), a_list(9)], [[], []])
    clock = AClock()
    reflector = a_reflector(server, monotonic_s=clock)
    follow(reflector)
    reflector.offer(an_object("new", version=10))
    clock.now_s = LIST_EVERY_S + 1
    follow(reflector)
    assert versions(reflector) == {"new": "10"}


def test_what_was_deleted_is_not_brought_back_by_a_late_answer() -> None:
    server = AServer(
        [a_list(5, an_object("a", version=2))], [[Event("DELETED", an_object("a", version=7))]]
    )
    reflector = a_reflector(server)
    follow(reflector)
    reflector.offer(an_object("a", version=6))
    assert versions(reflector) == {}


def test_what_a_restored_server_has_again_is_taken_over_again() -> None:
    """Mutant: what it had forgotten that it deleted was refused for as long as we ran."""
    server = AServer(
        [a_list(5, an_object("a", version=2)), a_list(3)],
        [[Event("DELETED", an_object("a", version=7))], []],
        now_version=3,
    )
    reflector = a_reflector(server)
    follow(reflector)
    reflector._failed(ClusterUnavailable("it was restored"))
    follow(reflector)
    reflector.offer(an_object("a", version=4))
    assert versions(reflector) == {"a": "4"}


def test_a_kind_that_the_cluster_does_not_know_is_empty() -> None:
    reflector = a_reflector(AServer([NotFound(404, "NotFound", "no")]), may_be_missing=True)
    error = follow(reflector)
    assert isinstance(error, NotFound)
    reflector._failed(error)
    assert versions(reflector) == {}


def test_a_kind_that_is_needed_and_unknown_is_told() -> None:
    reflector = a_reflector(AServer([NotFound(404, "NotFound", "no such kind")]))
    error = follow(reflector)
    assert isinstance(error, NotFound)
    reflector._failed(error)
    with pytest.raises(ClusterUnavailable, match="no such kind"):
        reflector.snapshot(wait_s=0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            'rayclusters is forbidden: User "x" cannot list resource "rayclusters"',
            'cannot be watched: rayclusters is forbidden: User "x" cannot list resource '
            '"rayclusters" (load the deploy/kubernetes/role.yaml of this version on the cluster)',
        ),
        ("a policy says no", "cannot be watched: a policy says no"),
    ],
)
def test_a_right_that_is_missing_is_told_with_what_to_do(words: str, told: str) -> None:
    reflector = a_reflector(AServer([Forbidden(403, "Forbidden", words)]))
    reflector._failed(follow(reflector))
    with pytest.raises(ClusterUnavailable) as raised:
        reflector.snapshot(wait_s=0)
    assert str(raised.value).endswith(told)


def test_what_nobody_asks_for_is_not_kept() -> None:
    server = AServer(
        [a_list(5, an_object("a", version=2), an_object("b", version=3))],
        [[Event("MODIFIED", an_object("a", version=6, name="dull"))]],
    )

    def trim(found: Json) -> Json | None:
        return None if found["metadata"]["name"] in ("dull", "b") else found

    reflector = a_reflector(server, trim=trim)
    follow(reflector)
    assert versions(reflector) == {}


def test_changes_are_told_in_their_order() -> None:
    """A late answer and the deletion that the watch tells, from two threads.

    Mutant: they were told when the lock was free again; whoever joins objects of what is told had
    one for ever that was deleted.
    """
    told: list[str] = []
    is_telling, may_go_on = threading.Event(), threading.Event()

    def changed(before: Json | None, now: Json | None) -> None:
        if now is not None and now["metadata"]["resourceVersion"] == "8":
            is_telling.set()
            assert may_go_on.wait(10)
        told.append("gone" if now is None else now["metadata"]["resourceVersion"])

    server = AServer(
        [a_list(5, an_object("a", version=2))],
        [[], [Event("DELETED", an_object("a", version=9))]],
    )
    reflector = a_reflector(server, changed=changed)
    follow(reflector)
    answer = threading.Thread(target=reflector.offer, args=(an_object("a", version=8),))
    answer.start()
    assert is_telling.wait(10)
    watch = threading.Thread(target=follow, args=(reflector,))
    watch.start()
    watch.join(0.2)
    may_go_on.set()
    answer.join(10)
    watch.join(10)
    assert told == ["2", "8", "gone"]
