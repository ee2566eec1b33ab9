"""Logs of Pods: kept by a few threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builders.kube_log_cluster import (
    START,
    FakeCluster,
    FakePod,
    chunk_of,
    cluster,
    eventually,
    is_there,
    keeper_of,
    tend,
)
from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.kubernetes.client.api import KubeRefused
from connectors.kubernetes.logs import log_files, log_keeping
from connectors.kubernetes.logs.log_keeping import LogKeeper
from connectors.kubernetes.logs.pod_logs import log_of, note_end, pause_after
from connectors.kubernetes.objects import naming
from connectors.protocol import LogChunk

__all__ = ["cluster", "keeper_of"]


def untimed(tmp_path: Path, *, offset: int = 0) -> LogChunk:
    """The kept files of a log, but for times."""
    return replace(chunk_of(tmp_path, offset=offset), times=())


def test_a_log_is_followed_and_complete_when_its_pod_has_ended(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    """Mutant: never final."""
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.writes("one\n")
    tend(keeper, pod)
    eventually(lambda: is_there(tmp_path, b"one\n"))
    assert untimed(tmp_path) == LogChunk(b"one\n", 0, 4, is_final=False, is_truncated=False)
    cluster.told(lambda: pod.writes("two\n"))
    eventually(lambda: is_there(tmp_path, b"one\ntwo\n"))
    assert chunk_of(tmp_path).is_final is False

    def end() -> None:
        pod.writes("last, without an end")
        pod.state = "terminated"

    cluster.told(end)
    tend(keeper, pod)
    assert keeper.catch_up({"tg-a"}, 5) is True
    expected = b"one\ntwo\nlast, without an end"
    assert untimed(tmp_path) == LogChunk(expected, 0, 28, is_final=True, is_truncated=False)
    assert untimed(tmp_path, offset=-3) == LogChunk(b"end", 25, 28, True, False)
    # The end may be heard by whoever follows, or be asked for.
    assert cluster.asked[0] == ("p", True, None)
    assert cluster.asked[1:] in ([], [("p", False, "2026-11-21T20:52:58Z")])


def test_a_stream_that_does_not_end_with_its_pod_is_not_waited_for(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    """Mutant: it was; the log was never final."""
    keeper, pod = keeper_of(), cluster.pod("p")
    cluster.hangs = True
    pod.writes("one\n")
    tend(keeper, pod)
    eventually(lambda: is_there(tmp_path, b"one\n"))
    pod.writes("two\n")
    pod.state = "terminated"
    keeper.pod_changed(None, pod.as_listed())
    assert keeper.catch_up({"tg-a"}, 5) is True
    assert untimed(tmp_path) == LogChunk(b"one\ntwo\n", 0, 8, is_final=True, is_truncated=False)


def test_only_the_logs_of_what_is_told_to_have_ended_are_waited_for(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper]
) -> None:
    """Planted: all were; a gang that took its time to end was told late, and its GPUs with it."""
    keeper, pod = keeper_of(), cluster.pod("p")
    cluster.refusal = ClusterUnavailable("down")
    pod.state = "terminated"
    tend(keeper, pod)
    assert keeper.catch_up({"tg-a"}, 0) is False
    assert keeper.catch_up({"tg-b"}, 5) is True


def test_a_pod_that_is_told_between_two_looks_is_followed_at_once(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.writes("one\n")
    keeper.pod_changed(None, pod.as_listed())
    assert cluster.asked == []  # Nobody who looks at all Pods: another process keeps the logs.
    tend(keeper)
    keeper.pod_changed(None, {**pod.as_listed(), "metadata": {"labels": []}})
    keeper.pod_changed(None, pod.as_listed())
    eventually(lambda: is_there(tmp_path, b"one\n"))
    del cluster.pods["p"]
    keeper.pod_changed(pod.as_listed(), None)
    assert keeper.catch_up({"tg-a"}, 5) is True
    assert chunk_of(tmp_path).is_final is True


def test_a_look_from_before_a_pod_ends_nothing_of_it(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    """The change that tells of a new Pod may come before the look at all Pods that lacks it.

    Mutant: what such a look lacks was gone; its log was complete before it had begun.
    """
    keeper, pod = keeper_of(), cluster.pod("p")
    tend(keeper)
    keeper.pod_changed(None, pod.as_listed())
    tend(keeper)
    assert keeper.catch_up({"tg-a"}, 5) is True
    pod.writes("one\n")
    pod.state = "terminated"
    tend(keeper, pod)
    assert keeper.catch_up({"tg-a"}, 5) is True
    assert untimed(tmp_path) == LogChunk(b"one\n", 0, 4, is_final=True, is_truncated=False)


def test_what_another_process_forgot_is_not_begun_again(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.writes("one\n")
    tend(keeper, pod)
    eventually(lambda: is_there(tmp_path, b"one\n"))
    log_files.remove_logs(str(tmp_path / "logs"), "tg-a")
    del cluster.pods["p"]
    tend(keeper)
    assert keeper.catch_up({"tg-a"}, 5) is True
    assert not (tmp_path / "logs" / "tg-a").exists()


def test_what_has_ended_before_it_is_seen_is_asked_for_once(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.writes("one\n")
    pod.state = "terminated"
    tend(keeper, pod)
    assert keeper.catch_up({"tg-a"}, 5) is True
    tend(keeper, pod)
    assert keeper.catch_up({"tg-a"}, 5) is True
    assert cluster.asked == [("p", False, None)]
    assert untimed(tmp_path) == LogChunk(b"one\n", 0, 4, is_final=True, is_truncated=False)


def test_broken_connections_lose_and_double_nothing(
    cluster: FakeCluster,
    keeper_of: Callable[..., LogKeeper],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_keeping, "AGAIN_S", 0.0)
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.writes(*(f"{n}\n" for n in range(5)))
    cluster.breaks_after = 3
    tend(keeper, pod)
    eventually(lambda: is_there(tmp_path, b"0\n1\n2\n3\n4\n"))
    assert len(cluster.asked) == 2


def test_another_keeper_goes_on_where_the_first_was_killed(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    """Also from a note that is older than what was written: that is written over itself."""
    first, pod = keeper_of(), cluster.pod("p")
    pod.writes("one\n", "one\n")
    tend(first, pod)
    eventually(lambda: is_there(tmp_path, b"one\none\n"))
    note = tmp_path / "logs" / "tg-a" / "0.json"
    first.close()
    eventually(lambda: note.exists() and '"lines": 2' in note.read_text())
    older = note.read_text()
    second = keeper_of()
    cluster.told(lambda: pod.writes("two\n", second=START))
    tend(second, pod)
    eventually(lambda: is_there(tmp_path, b"one\none\ntwo\n"))
    second.close()
    eventually(lambda: '"lines": 3' in note.read_text())
    note.write_text(older)
    third = keeper_of()
    pod.state = "terminated"
    tend(third, pod)
    assert third.catch_up({"tg-a"}, 5) is True
    assert chunk_of(tmp_path).data == b"one\none\ntwo\n"


def test_there_is_one_keeper_at_a_time(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    """Mutant: both followed, and each line was there twice."""
    first, second, pod = keeper_of(), keeper_of(), cluster.pod("p")
    pod.writes("one\n")
    tend(first, pod)
    tend(second, pod)
    assert (first._lock is None, second._lock is None) == (False, True)
    eventually(lambda: is_there(tmp_path, b"one\n"))
    assert [asked[0] for asked in cluster.asked] == ["p"]
    first.close()
    cluster.told(lambda: pod.writes("two\n"))
    tend(second, pod)
    eventually(lambda: is_there(tmp_path, b"one\ntwo\n"))


def test_more_pods_than_followers_are_asked_in_turn(
    cluster: FakeCluster,
    keeper_of: Callable[..., LogKeeper],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mutant: whoever came first was followed and the others had no log before their end."""
    monkeypatch.setattr(log_keeping, "ASK_EVERY_S", 0.05)
    monkeypatch.setattr(log_keeping, "FOLLOWERS_MAX", 16)
    keeper = keeper_of()
    pods = [cluster.pod(f"p{n:02d}", rank=n) for n in range(26)]
    for pod in pods:
        pod.writes(f"{pod.rank}\n")
    tend(keeper, *pods)
    eventually(lambda: all(is_there(tmp_path, b"%d\n" % pod.rank, rank=pod.rank) for pod in pods))
    with cluster.changed:
        followed = {name for name, is_followed, _ in cluster.asked if is_followed}
    assert len(followed) == 16
    assert keeper._threads <= 16 + log_keeping.ASKERS_MAX

    def write() -> None:
        for pod in pods:
            pod.writes("more\n")

    cluster.told(write)
    eventually(
        lambda: all(is_there(tmp_path, b"%d\nmore\n" % pod.rank, rank=pod.rank) for pod in pods)
    )


def test_as_many_threads_as_pods_are_followed_and_a_few_that_wait(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper]
) -> None:
    """Mutant: threads whose Pods had ended stayed, and each woke at every change of a Pod."""
    keeper = keeper_of()
    pods = [cluster.pod(f"p{n:02d}", rank=n) for n in range(30)]
    tend(keeper, *pods)
    eventually(lambda: keeper._followers == 30)
    for pod in pods[:20]:
        pod.state = "terminated"
    tend(keeper, *pods)
    assert keeper.catch_up({"tg-a"}, 5) is True

    eventually(lambda: keeper._threads <= 10 + log_keeping.ASKERS_MAX)
    assert (keeper._followers, keeper._busy) == (10, 10)


def test_the_head_is_kept_and_no_more_asked_for(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    keeper, pod = keeper_of(cap_bytes=6), cluster.pod("p")
    pod.writes("1234\n", "5678\n", "9\n")
    tend(keeper, pod)
    eventually(lambda: is_there(tmp_path, b"1234\n5"))
    pod.state = "terminated"
    tend(keeper, pod)
    assert keeper.catch_up({"tg-a"}, 5) is True
    assert untimed(tmp_path) == LogChunk(b"1234\n5", 0, 6, is_final=True, is_truncated=True)
    assert len(cluster.asked) == 1


def test_a_pod_that_is_gone_leaves_what_was_kept(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.writes("one\n")
    tend(keeper, pod)
    eventually(lambda: is_there(tmp_path, b"one\n"))
    del cluster.pods["p"]
    tend(keeper)
    assert keeper.catch_up({"tg-a"}, 5) is True
    assert untimed(tmp_path) == LogChunk(b"one\n", 0, 4, is_final=True, is_truncated=False)
    tend(keeper)
    assert keeper._logs == {}


def test_what_never_had_a_container_has_an_empty_log_in_the_end(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.state = "waiting"
    tend(keeper, pod)
    with pytest.raises(LogUnavailable, match="has no output of rank 0, or not yet"):
        chunk_of(tmp_path)
    pod.state = "terminated"
    cluster.refusal = KubeRefused(400, "BadRequest", "container is waiting to start", ())
    tend(keeper, pod)
    assert keeper.catch_up({"tg-a"}, 5) is True
    assert untimed(tmp_path) == LogChunk(b"", 0, 0, is_final=True, is_truncated=False)


def test_what_cannot_be_fetched_is_not_waited_for_long(
    cluster: FakeCluster,
    keeper_of: Callable[..., LogKeeper],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node that is away keeps no observation waiting; its log comes when it is back."""
    monkeypatch.setattr(log_keeping, "WAIT_FOR_END_S", 0.1)
    monkeypatch.setattr(log_keeping, "AGAIN_S", 0.01)
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.writes("one\n")
    pod.state = "terminated"
    cluster.refusal = ClusterUnavailable("the node does not answer")
    tend(keeper, pod)
    begun = time.monotonic()
    assert keeper.catch_up({"tg-a"}, 60) is False
    assert keeper.catch_up({"tg-a"}, 60) is False
    assert time.monotonic() - begun < 60
    cluster.refusal = None
    eventually(lambda: is_there(tmp_path, b"one\n") and chunk_of(tmp_path).is_final)


def test_a_log_that_nobody_gives_is_asked_for_ever_more_seldom() -> None:
    """Planted: every second, of each of hundreds of Pods on a node that gives no logs."""
    one = log_of("tg-a", 0, FakePod("p").as_listed())
    one.heard_at_s = 0.0

    def pauses(*spans: tuple[float, float]) -> list[float]:
        return [pause_after(one, began_s=began, now_s=now, again_s=1.0) for began, now in spans]

    in_vain = [(10.0, 10.1)] * 9
    assert pauses(*in_vain) == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    one.heard_at_s = 20.0
    assert pauses((20.0, 20.1), (30.0, 30.1)) == [1, 2]
    # Who listens for long in silence asks no more often than who hears something.
    assert pauses((40.0, 100.0), (200.0, 200.1)) == [1, 2]
    note_end(one, is_ended=True)
    assert pauses((one.heard_at_s + 1, one.heard_at_s + 2)) == [1]


def test_follows_that_end_at_once_are_begun_ever_more_seldom(
    cluster: FakeCluster,
    keeper_of: Callable[..., LogKeeper],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pauses double: between five there are at least 150 ms."""
    monkeypatch.setattr(log_keeping, "AGAIN_S", 0.01)
    keeper, pod = keeper_of(), cluster.pod("p")
    cluster.refusal = ClusterUnavailable("the node does not answer")
    tend(keeper, pod)
    began = time.monotonic()
    eventually(lambda: len(cluster.asked) >= 5)
    assert time.monotonic() - began >= 0.01 + 0.02 + 0.04 + 0.08


def test_what_is_forgotten_is_gone_for_good(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    """Mutant: a Pod that was still listed was followed again, and its log was back."""
    keeper, pod, other = keeper_of(), cluster.pod("p"), cluster.pod("q", key="tg-b")
    pod.writes("one\n")
    other.writes("other\n")
    tend(keeper, pod, other)
    eventually(lambda: is_there(tmp_path, b"one\n") and is_there(tmp_path, b"other\n", "tg-b"))
    keeper.forget("tg-a")
    keeper.forget("tg-a")
    keeper.forget("unknown")
    tend(keeper, pod, other)

    def write() -> None:
        pod.writes("two\n")
        other.writes("more\n")

    cluster.told(write)
    eventually(lambda: is_there(tmp_path, b"other\nmore\n", "tg-b"))
    with pytest.raises(LogUnavailable):
        chunk_of(tmp_path)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir() if path.name[0] != ".") == [
        "tg-b"
    ]


@pytest.mark.parametrize("step", ["unlink", "rmdir"])
def test_who_still_writes_does_not_keep_what_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whoever follows a log notes how far it is once more when it is forgotten, at any moment.

    Planted: a note in the middle of the removal ended it, and the directory stayed for ever.
    """
    folder = tmp_path / "tg-a"
    folder.mkdir()
    (folder / "0.log").write_text("one")
    (folder / "0.json.new").write_text("{}")
    real, notes = getattr(os, step), [1, 2]

    def note_before(name: str, *, dir_fd: int) -> None:
        if notes:
            notes.pop()
            if step == "rmdir":
                (folder / "0.json").write_text("{}")
            elif (folder / "0.json.new").exists():
                (folder / "0.json.new").rename(folder / "0.json")
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, step, note_before)
    log_files.remove_logs(str(tmp_path), "tg-a")
    assert (folder.exists(), notes) == (False, [])


def test_what_is_written_to_without_end_is_not_called_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tg-a").mkdir()
    real = os.rmdir

    def write_before(name: str, *, dir_fd: int) -> None:
        (tmp_path / "tg-a" / "0.json").write_text("{}")
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", write_before)
    with pytest.raises(OSError, match="written to without end"):
        log_files.remove_logs(str(tmp_path), "tg-a")


def test_only_the_portal_may_read_what_is_kept(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.writes("one\n")
    tend(keeper, pod)
    eventually(lambda: is_there(tmp_path, b"one\n"))
    root = tmp_path / "logs"
    modes = {path.relative_to(root).as_posix(): path.stat().st_mode for path in root.rglob("*")}
    assert oct(root.stat().st_mode & 0o777) == "0o700"
    assert oct(modes["tg-a"] & 0o777) == "0o700"
    assert oct(modes["tg-a/0.log"] & 0o777) == "0o600"


@pytest.mark.parametrize("container", sorted(naming.CONTAINERS))
def test_the_log_is_that_of_the_container_that_runs_the_script(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path, container: str
) -> None:
    """Operators of some kinds want a name of their own for it.

    Mutant: "main" was asked for always; the server has no such container (400), and the logs of
    every PyTorchJob and TrainJob were empty and final.
    """
    keeper, pod = keeper_of(), cluster.pod("p")
    pod.container = container
    pod.writes("one\n")
    pod.state = "terminated"
    tend(keeper, pod)
    assert keeper.catch_up({"tg-a"}, 5) is True
    assert chunk_of(tmp_path).data == b"one\n"
