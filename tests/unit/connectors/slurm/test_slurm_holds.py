"""What we let go and somebody else holds is theirs.

Planted and seen to die: a hold right after the release taken for somebody else's (a controller
that crashes forgets the release); the time forgotten while it is listed; any hold released.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders.slurm_rest_builders import (
    PlainTokens,
    ScriptedCluster,
    a_client,
    a_submission,
    an_answer,
)
from connectors.errors import ClusterUnavailable, NotPrepared
from connectors.protocol import Observation, RankSlot, Workload
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.hardware import Hardware, Kept
from connectors.slurm.naming import comment_of, tag
from connectors.slurm.neutral import SlurmNode, SlurmPartition
from connectors.slurm.options import parse_options
from connectors.slurm.submissions import SubmissionBuilder

SECRET = "0123456789abcdef0123456789abcdef"
OPTIONS: dict[str, Any] = {
    "url": "http://slurm.test",
    "service_user": "tidegate",
    "token_socket": "/run/tidegate/minter",
    "tag_secret": SECRET,
    "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
    "settle_s": 0,
}
KEY = "tg-0190a000-0000-7000-8000-000000000001"


def a_row(*, held: bool, reason: str = "JobHeldUser") -> dict[str, Any]:
    return {
        **ASKED,
        "job_id": 7,
        "name": tag(SECRET.encode(), KEY, "ana"),
        "user_name": "ana",
        "job_state": "PENDING",
        "state_reason": reason if held else "Resources",
        "priority": 0 if held else 10,
        "submit_time": 5,
        "nodes": "",
    }


TAG = tag(SECRET.encode(), KEY, "ana")
ASKED: dict[str, Any] = {
    "partition": "h100",
    "account": "acme_nlp",
    "qos": "g-acme_nlp",
    "node_count": 2,
    "tres_req_str": "cpu=2,node=2,gres/gpu=4,gres/gpu:h100=4",
    "comment": comment_of(SECRET.encode(), TAG, ("h100", "acme_nlp", "g-acme_nlp", "h100", 2, 4)),
}


class Queue:
    """A connector on a queue of one job that is listed again and again."""

    def __init__(self, settle_s: int = 0) -> None:
        self.row = a_row(held=True)
        self.cluster = (
            ScriptedCluster("v0.0.38")
            .on("GET", "/slurm/v0.0.38/jobs", lambda _: self._answer())
            .on("GET", "/job/7", lambda _: self._answer())
            .on("POST", "/job/7", an_answer({"errors": []}))
        )
        options = parse_options({**OPTIONS, "settle_s": settle_s})
        self.connector = SlurmConnector(options, PlainTokens())
        self.connector._rest = a_client(self.cluster)

    def _answer(self) -> Any:
        return an_answer({"jobs": [self.row], "errors": []})

    def look(self, after_s: int, *, held: bool, reason: str = "JobHeldUser") -> Observation:
        self.row = a_row(held=held, reason=reason)
        self.cluster.now += after_s
        return self.connector.observe().observations[KEY]

    def releases(self) -> int:
        self.connector.release(KEY, "7")
        return len(self.cluster.seen("POST", "/job/7"))


def test_our_own_hold_is_released() -> None:
    queue = Queue()
    assert not queue.look(1, held=True).is_held_by_others
    assert queue.releases() == 1


def test_what_was_settled_when_it_was_listed_is_released_without_asking_the_time() -> None:
    """Mutants: asked before every release; believed of whoever has the number now; believed of
    what was not settled yet in the list."""
    queue = Queue(settle_s=7)
    queue.cluster.now = 10
    queue.look(1, held=True)
    with pytest.raises(ClusterUnavailable, match="wait 1 s"):
        queue.releases()
    queue.look(1, held=True)
    asked = len(queue.cluster.seen("GET", "/diag"))
    assert queue.releases() == 1
    assert len(queue.cluster.seen("GET", "/diag")) == asked
    queue.row = {**queue.row, "submit_time": 8}
    with pytest.raises(ClusterUnavailable, match="wait 3 s"):
        queue.releases()


def test_what_waited_and_is_held_again_is_left() -> None:
    queue = Queue()
    queue.look(1, held=True)
    queue.look(1, held=False)
    queue.look(7, held=False)
    for _ in range(2):
        assert queue.look(60, held=True).is_held_by_others
        assert queue.releases() == 0


def test_a_release_that_the_controller_forgot_is_sent_again() -> None:
    queue = Queue()
    queue.look(1, held=False)
    queue.look(6, held=False)
    assert not queue.look(60, held=True).is_held_by_others
    assert queue.releases() == 1


def test_an_administrators_hold_is_left_at_any_time() -> None:
    queue = Queue()
    assert queue.look(1, held=True, reason="JobHeldAdmin").is_held_by_others
    assert queue.releases() == 0


def test_what_slurm_holds_because_it_can_never_start_is_left() -> None:
    queue = Queue()
    assert queue.look(1, held=True, reason="BadConstraints").never_starts
    assert queue.releases() == 0


@pytest.mark.parametrize(
    ("changes", "now"),
    [
        ({"partition": "a100"}, "4 h100 on 2 nodes of partition a100 now, for account acme_nlp"),
        ({"tres_req_str": "gres/gpu=16,gres/gpu:h100=16"}, "16 h100 on 2 nodes of partition h100"),
        ({"tres_req_str": "gres/gpu=4,gres/gpu:a100=4"}, "4 a100 on 2 nodes of partition h100"),
        ({"tres_req_str": "cpu=2"}, "no GPUs on 2 nodes of partition h100"),
        ({"node_count": 4}, "4 h100 on 4 nodes of partition h100"),
        ({"account": "acme_vision"}, "for account acme_vision with QoS g-acme_nlp."),
        ({"qos": "tg-borrow"}, "for account acme_nlp with QoS tg-borrow."),
        ({"comment": f"Tidegate {KEY}"}, "4 h100 on 2 nodes of partition h100 now"),
    ],
)
def test_what_somebody_changed_before_its_release_is_not_released(
    changes: dict[str, Any], now: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a user moved their held job to more GPUs and had it let go as the one granted."""
    queue = Queue()
    assert not queue.look(1, held=True).is_altered
    for name, value in changes.items():
        monkeypatch.setitem(ASKED, name, value)
    for held in (True, False):
        seen = queue.look(1, held=held)
        assert seen.is_altered
        assert now in seen.message
    queue.look(1, held=True)
    assert queue.releases() == 0


def test_gpus_of_which_the_cluster_tells_no_type_are_those_of_the_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ASKED, "tres_req_str", "gres/gpu=4")
    queue = Queue()
    assert not queue.look(1, held=True).is_altered
    assert queue.releases() == 1


def test_what_is_submitted_is_what_is_compared() -> None:
    """Planted: the GPUs of one node were signed, and those of all of them compared."""
    builder = SubmissionBuilder(parse_options(OPTIONS), Kept(lambda: Hardware({}, {})))
    submission = a_submission(
        name=TAG, account="acme_nlp", qos="g-acme_nlp", node_count=2, gpus_per_node=2
    )
    assert builder.signed(submission).comment == ASKED["comment"]
    large = replace(submission, account="ACME_nlp")
    assert builder.signed(large).comment == ASKED["comment"], "Slurm makes small letters of them"
    assert builder.signed(replace(submission, node_count=3)).comment != ASKED["comment"]


@pytest.mark.parametrize(
    ("limit_s", "nodes", "words"),
    [
        (3_600, ("n1",), "the time limit of 1h1s is longer than the 1h that partition h100"),
        (None, (), "and partition h100 has 0 such nodes"),
    ],
)
def test_what_its_partition_does_not_allow_another_cluster_may_take(
    limit_s: int | None, nodes: tuple[str, ...], words: str
) -> None:
    """Planted: the job failed for good, wherever else it could have run."""
    hardware = Hardware(
        {"h100": SlurmPartition("h100", "UP", nodes, limit_s, {"h100": 8})},
        {"n1": SlurmNode("n1", "IDLE", frozenset(), "", ("h100",), (), {"h100": 8})},
    )
    builder = SubmissionBuilder(parse_options(OPTIONS), Kept(lambda: hardware))
    workload = Workload(
        KEY, "job", "h100", "ana", "true", (RankSlot("n1", 1_000),), "acme/nlp", time_limit_s=3_601
    )
    with pytest.raises(NotPrepared, match=words):
        builder.build(workload, "ana")


@pytest.mark.parametrize(
    ("wants", "cpus", "memory_mb"),
    [
        ({}, 4, 18),
        ({"cpus_per_node": 3}, 3, 18),
        ({"memory_mib_per_node": 7}, 4, 7),
        ({"cpus_per_node": 64, "memory_mib_per_node": 4_096}, 64, 4_096),
    ],
)
def test_slurm_is_asked_for_the_cpus_and_the_memory(
    wants: dict[str, int], cpus: int, memory_mb: int
) -> None:
    """What a job does not say comes with its GPUs. Mutant: the cluster's own word wins."""
    node = SlurmNode("n1", "IDLE", frozenset(), "", ("h100",), (), {"h100": 8}, False, 64, 4_096)
    hardware = Hardware(
        {"h100": SlurmPartition("h100", "UP", ("n1",), None, {"h100": 8})}, {"n1": node}
    )
    options = parse_options({**OPTIONS, "cpus_per_gpu": 2, "memory_mb_per_gpu": 9})
    builder = SubmissionBuilder(options, Kept(lambda: hardware))
    workload = replace(
        Workload(KEY, "job", "h100", "ana", "true", (RankSlot("n1", 2_000),), "acme/nlp"), **wants
    )
    submission = builder.build(workload, "ana")
    assert (submission.cpus_per_task, submission.memory_mb_per_node) == (cpus, memory_mb)


@pytest.mark.parametrize(
    ("wants", "words"),
    [
        ({"cpus_per_node": 65}, "1 GPUs of type h100, 65 CPUs are asked for"),
        ({"memory_mib_per_node": 4_097}, "1 GPUs of type h100, 4097 MiB of memory are asked for"),
    ],
)
def test_more_cpus_or_memory_than_nodes_have_another_cluster_may_give(
    wants: dict[str, int], words: str
) -> None:
    """Mutant: it was submitted, and waited there for ever."""
    node = SlurmNode("n1", "IDLE", frozenset(), "", ("h100",), (), {"h100": 8}, False, 64, 4_096)
    hardware = Hardware(
        {"h100": SlurmPartition("h100", "UP", ("n1",), None, {"h100": 8})}, {"n1": node}
    )
    builder = SubmissionBuilder(parse_options(OPTIONS), Kept(lambda: hardware))
    workload = replace(
        Workload(KEY, "job", "h100", "ana", "true", (RankSlot("n1", 1_000),), "acme/nlp"), **wants
    )
    with pytest.raises(NotPrepared, match=words):
        builder.build(workload, "ana")


def test_closed_nodes_are_excluded_if_the_cluster_has_them() -> None:
    """Slurm refuses a job that excludes an unknown node. Planted: every closed node is named."""
    node = SlurmNode("n1", "IDLE", frozenset(), "", ("h100",), (), {"h100": 8})
    nodes = {name: replace(node, name=name) for name in ("n1", "n2")}
    partition = SlurmPartition("h100", "UP", ("n1", "n2"), None, {"h100": 8})
    builder = SubmissionBuilder(
        parse_options(OPTIONS), Kept(lambda: Hardware({"h100": partition}, nodes))
    )
    slots = (RankSlot("n1", 1_000),)
    workload = Workload(KEY, "job", "h100", "ana", "true", slots, "acme/nlp")
    assert builder.build(workload, "ana").excluded_nodes == ()
    workload = replace(workload, closed_nodes=("gone", "n2"))
    assert builder.build(workload, "ana").excluded_nodes == ("n2",)
