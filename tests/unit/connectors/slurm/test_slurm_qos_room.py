"""In which QoS a guaranteed job of a Slurm cluster starts at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any, cast

import pytest

from builders.connector_builders import DEADLINE_S, a_workload
from builders.slurm_rest_builders import PlainTokens, ScriptedCluster, a_client, an_answer
from connectors.errors import ClusterUnavailable
from connectors.slurm.accounting import SlurmAccounting
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.controller import SlurmController
from connectors.slurm.neutral import Qos, SlurmJob, Submission
from connectors.slurm.options import parse_options
from connectors.slurm.qos_room import LIMITS_KEPT_S, LIMITS_TIMEOUT_S, TAKEN_KEPT_S, QosRoom

MINE, OTHERS, BORROW = "g-org_nlp", "g-org_vision", "tg-borrow"
OPTIONS: dict[str, Any] = {
    "url": "http://slurm.test",
    "service_user": "tidegate",
    "token_socket": "/run/tidegate/minter",
    "tag_secret": "0123456789abcdef0123456789abcdef",
    "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
}


@dataclass
class Cluster:
    """What the client knows; `reads` counts how often limits were asked for."""

    limits: dict[str, dict[str, int]] = field(
        default_factory=lambda: {MINE: {"gres/gpu:h100": 8}, OTHERS: {"gres/gpu": 4}, BORROW: {}}
    )
    last_jobs: tuple[SlurmJob, ...] = ()
    qos_writes: int = 0
    reads: int = 0
    is_down: bool = False
    now_s: float = 0.0
    hangs: Event | None = None
    reached: Event = field(default_factory=Event)

    def qos(self, *, timeout_s: float) -> tuple[Qos, ...]:
        assert timeout_s == LIMITS_TIMEOUT_S
        self.reads += 1
        if self.hangs is not None:
            self.reached.set()
            assert self.hangs.wait(DEADLINE_S)
        if self.is_down:
            raise ClusterUnavailable("7000")
        return tuple(Qos(name, group_tres=limits) for name, limits in self.limits.items())


def a_room(cluster: Cluster) -> QosRoom:
    return QosRoom(
        cast(SlurmController, cluster),
        cast(SlurmAccounting, cluster),
        otherwise=BORROW,
        monotonic_s=lambda: cluster.now_s,
    )


def asks(name: str, gpus: int, nodes: int = 1, qos: str = MINE) -> Submission:
    return Submission(
        *(name, "", "org_nlp", "gpu", qos, "h100", gpus, "", "/", "", "", {}), node_count=nodes
    )


def a_job(
    name: str, gpus: int, qos: str = MINE, state: str = "RUNNING", held: bool = False
) -> SlurmJob:
    has = {"h100": gpus}
    return SlurmJob(
        *(1, name, "ana", "org_nlp", "gpu", qos, "", state, frozenset(), "", held, 100),
        *(None, None, None, None, 1, (), has, has if state == "RUNNING" else {}),
        *({}, None),
    )


def chosen(room: QosRoom, name: str, gpus: int, nodes: int = 1, qos: str = MINE) -> str:
    return room.take(asks(name, gpus, nodes, qos)).qos


def test_what_was_taken_counts_until_it_is_given_back() -> None:
    """Mutants that died: nodes not counted; the limit itself refused; other QoS counted in."""
    room = a_room(Cluster())
    assert chosen(room, "tg-1", 2, nodes=2) == MINE
    assert chosen(room, "tg-2", 5) == BORROW
    assert chosen(room, "tg-3", 4) == MINE
    assert chosen(room, "tg-4", 1) == BORROW
    assert chosen(room, "tg-5", 4, qos=OTHERS) == OTHERS
    room.give_back(asks("tg-3", 4))
    assert chosen(room, "tg-6", 1) == MINE


def test_what_may_not_be_queued_again_waits_in_its_own_and_counts_there() -> None:
    room = a_room(Cluster())
    assert chosen(room, "tg-1", 8) == MINE
    assert room.take(asks("tg-2", 4), may_borrow=False).qos == MINE
    room.give_back(asks("tg-1", 8))
    assert chosen(room, "tg-3", 8) == BORROW
    assert chosen(room, "tg-4", 4) == MINE


@pytest.mark.parametrize(("is_requeueable", "qos"), [(True, BORROW), (False, "g-ai_nlp")])
def test_slurm_gets_no_chance_to_end_what_may_not_be_queued_again(
    is_requeueable: bool, qos: str
) -> None:
    node = {"name": "h001", "state": "idle", "partitions": ["h100"], "tres": "gres/gpu:h100=8"}
    partition = {"name": "h100", "nodes": "h001", "state": "UP"}
    slurm = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/nodes", an_answer({"nodes": [node], "errors": []}))
        .on("GET", "/partitions", an_answer({"partitions": [partition], "errors": []}))
        .on("POST", "/job/submit", an_answer({"job_id": 7, "errors": []}))
    )
    connector = SlurmConnector(parse_options(OPTIONS), PlainTokens())
    connector._rest = a_client(slurm)
    connector._room = a_room(Cluster({"g-ai_nlp": {"gres/gpu:h100": 4}}))
    workload = a_workload(team="ai/nlp", cluster_user="ana", is_requeueable=is_requeueable)
    assert connector.submit(workload, is_first=True) == "7"
    (sent,) = slurm.seen("POST", "/job/submit")
    assert json.loads(sent.content)["job"]["qos"] == qos


def test_what_is_listed_counts_once_and_who_waits_may_come_first() -> None:
    """Mutants that died: what is listed counted beside what was taken; ended jobs counted; what
    its user holds counted; our own held jobs or waiting ones of others not counted; an old list
    kept."""
    cluster = Cluster()
    room = a_room(cluster)
    assert chosen(room, "tg-1", 4) == MINE
    cluster.last_jobs = (
        a_job("tg-1", 4, state="PENDING", held=True),
        a_job("mine", 6, state="PENDING", held=True),
        a_job("ended", 8, state="COMPLETED"),
        a_job("others", 8, OTHERS),
    )
    assert chosen(room, "tg-0", 5) == BORROW
    assert chosen(room, "tg-2", 4) == MINE
    cluster.last_jobs = (a_job("tg-1", 4), a_job("native", 2, state="PENDING"))
    room.give_back(asks("tg-2", 4))
    assert chosen(room, "tg-3", 3) == BORROW
    assert chosen(room, "tg-4", 2) == MINE


def test_what_no_list_ever_shows_is_forgotten() -> None:
    cluster = Cluster()
    room = a_room(cluster)
    assert chosen(room, "tg-1", 8) == MINE
    cluster.now_s = TAKEN_KEPT_S - 1
    assert chosen(room, "tg-2", 8) == BORROW
    cluster.now_s = TAKEN_KEPT_S
    assert chosen(room, "tg-3", 8) == MINE


def test_limits_are_read_again_after_a_write_and_after_a_while() -> None:
    """So that what a push raises holds for the very next job."""
    cluster = Cluster()
    room = a_room(cluster)
    assert chosen(room, "tg-1", 16) == BORROW
    cluster.limits[MINE] = {"gres/gpu:h100": 16, "gres/gpu": 16}
    assert chosen(room, "tg-2", 16) == BORROW
    cluster.qos_writes += 1
    assert chosen(room, "tg-3", 16) == MINE
    assert cluster.reads == 2
    cluster.limits[MINE] = {}
    cluster.now_s = LIMITS_KEPT_S
    assert chosen(room, "tg-4", 16) == MINE
    assert cluster.reads == 3


def test_without_the_accounting_the_last_limits_count_and_nobody_waits_for_it() -> None:
    cluster = Cluster(is_down=True)
    room = a_room(cluster)
    assert chosen(room, "tg-1", 16) == MINE
    assert chosen(room, "tg-2", 16) == MINE
    assert cluster.reads == 1
    cluster.is_down = False
    cluster.now_s += LIMITS_KEPT_S
    assert chosen(room, "tg-3", 16) == BORROW
    cluster.is_down = True
    cluster.now_s += LIMITS_KEPT_S
    assert chosen(room, "tg-4", 16) == BORROW
    assert cluster.reads == 3


def test_while_one_waits_for_the_accounting_the_others_go_by_the_last_limits() -> None:
    """Mutants that died: the question under the lock; everybody asks."""
    cluster = Cluster()
    room = a_room(cluster)
    assert chosen(room, "tg-1", 4) == MINE
    cluster.now_s, cluster.hangs = LIMITS_KEPT_S, Event()
    cluster.limits[MINE] = {}
    found: list[str] = []
    asker = Thread(target=lambda: found.append(chosen(room, "tg-2", 16)), daemon=True)
    asker.start()
    assert cluster.reached.wait(DEADLINE_S)
    other = Thread(
        target=lambda: found.extend([chosen(room, "tg-3", 8), chosen(room, "tg-4", 4)]), daemon=True
    )
    room.give_back(asks("tg-1", 4))
    other.start()
    other.join(DEADLINE_S)
    assert found == [MINE, BORROW]
    cluster.hangs.set()
    asker.join(DEADLINE_S)
    assert found == [MINE, BORROW, MINE]
    assert cluster.reads == 2


def test_before_the_first_answer_the_others_wait_for_it() -> None:
    cluster = Cluster(hangs=Event())
    room = a_room(cluster)
    found: list[str] = []
    threads = [
        Thread(target=lambda: found.append(chosen(room, "tg-1", 16)), daemon=True),
        Thread(target=lambda: found.append(chosen(room, "tg-2", 16)), daemon=True),
    ]
    for thread in threads:
        thread.start()
        assert cluster.reached.wait(DEADLINE_S)
    assert cluster.hangs is not None
    cluster.hangs.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert (found, cluster.reads) == ([BORROW, BORROW], 1)


def test_a_qos_that_is_not_there_is_left_for_slurm_to_refuse() -> None:
    assert chosen(a_room(Cluster()), "tg-1", 8, qos="g-new") == "g-new"
