"""A cluster that answers as another one is not believed, and nothing is sent to it.

Planted and seen to die: names in answers not compared; rows not compared; a write before the name
is known; a refusal that ends with the next write; an empty queue believed; the secret not compared;
the name in the answer to a write not compared.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from builders.slurm_rest_builders import (
    PlainTokens,
    ScriptedCluster,
    a_client,
    a_submission,
    an_answer,
    an_error,
)
from connectors.errors import AnotherCluster, ClusterUnavailable
from connectors.slurm.connector import SlurmConnector, open_slurm
from connectors.slurm.naming import secret_mark
from connectors.slurm.options import parse_options

OPTIONS: dict[str, Any] = {
    "url": "http://slurm.test",
    "service_user": "tidegate",
    "token_socket": "/run/tidegate/minter",
    "tag_secret": "0123456789abcdef0123456789abcdef",
    "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
}
HERE = {"slurm": {"cluster": "hpc"}}
THERE = {"slurm": {"cluster": "lab"}}
EMPTY = an_answer({"jobs": [], "errors": []})


def a_row(cluster: str) -> dict[str, Any]:
    return {
        "job_id": 1,
        "name": "x",
        "cluster": cluster,
        "job_state": "RUNNING",
        "submit_time": 5,
        "nodes": "",
    }


def listing(*clusters: str) -> httpx.Response:
    return an_answer({"jobs": [a_row(cluster) for cluster in clusters], "errors": []})


def clusters(*names: str) -> httpx.Response:
    return an_answer({"clusters": [{"name": name} for name in names], "errors": []})


def a_connector(cluster: ScriptedCluster, wanted: str | None) -> SlurmConnector:
    connector = SlurmConnector(parse_options(OPTIONS), PlainTokens(), cluster=wanted)
    connector._rest = a_client(cluster, cluster=wanted)
    return connector


def sent(cluster: ScriptedCluster) -> list[str]:
    return [request.method for request in cluster.requests if request.method != "GET"]


def test_a_name_in_an_answer_is_compared() -> None:
    cluster = ScriptedCluster("v0.0.44").on(
        "GET", "/nodes", an_answer({"nodes": [], "errors": [], "meta": THERE})
    )
    with pytest.raises(AnotherCluster) as caught:
        a_client(cluster, cluster="hpc").controller.nodes()
    assert str(caught.value) == (
        "this address answers as lab, and hpc is what answered before; nothing of it is believed "
        "and nothing is sent. Let the address lead to hpc again"
    )
    assert a_client(cluster).controller.nodes() == ()


def test_the_names_of_its_jobs_are_compared() -> None:
    cluster = ScriptedCluster("v0.0.38").on("GET", "/jobs", listing("lab"))
    with pytest.raises(AnotherCluster):
        a_client(cluster, cluster="hpc").controller.jobs()
    assert [job.job_id for job in a_client(cluster, cluster="lab").controller.jobs().jobs] == [1]


def test_jobs_of_several_clusters_say_nothing() -> None:
    cluster = ScriptedCluster("v0.0.38").on("GET", "/jobs", listing("lab", "hpc"))
    client = a_client(cluster, cluster="home")
    assert len(client.controller.jobs().jobs) == 2
    assert client.cluster is None


@pytest.mark.parametrize(
    ("queue", "known"),
    [(listing("lab"), clusters("hpc")), (EMPTY, clusters("lab")), (EMPTY, clusters("lab", "x"))],
)
def test_nothing_is_sent_to_another_cluster(queue: httpx.Response, known: httpx.Response) -> None:
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/slurm/v0.0.38/jobs", queue)
        .on("GET", "/clusters", known)
    )
    client = a_client(cluster, cluster="hpc")
    for _ in range(2):
        with pytest.raises(AnotherCluster):
            client.controller.submit("ana", a_submission())
        with pytest.raises(AnotherCluster):
            client.controller.cancel(7)
    assert sent(cluster) == []


def test_nothing_is_sent_while_nobody_says_who_it_is() -> None:
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/slurm/v0.0.38/jobs", EMPTY)
        .on("GET", "/clusters", an_answer(an_error(7000), 500))
    )
    with pytest.raises(ClusterUnavailable):
        a_client(cluster, cluster="hpc").controller.cancel(7)
    assert sent(cluster) == []


def test_it_is_asked_once_before_something_is_sent() -> None:
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/slurm/v0.0.38/jobs", EMPTY)
        .on("GET", "/clusters", clusters("hpc", "lab"))
        .on("DELETE", "/job/7", an_answer({"errors": []}))
    )
    client = a_client(cluster, cluster="hpc")
    client.controller.cancel(7)
    client.controller.cancel(7)
    assert sent(cluster) == ["DELETE", "DELETE"]
    assert len(cluster.seen("GET", "/clusters")) == 1


def test_when_it_is_back_it_is_believed_again() -> None:
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/slurm/v0.0.38/jobs", listing("lab"), listing("hpc"))
        .on("DELETE", "/job/7", an_answer({"errors": []}))
    )
    client = a_client(cluster, cluster="hpc")
    with pytest.raises(AnotherCluster):
        client.controller.jobs()
    client.controller.jobs()
    client.controller.cancel(7)
    assert sent(cluster) == ["DELETE"]


def test_a_name_in_the_answer_to_a_write_is_compared() -> None:
    """It was ours at the last answer: what it says now of the job is not believed, and nothing else
    is sent before it is ours again."""
    gone = an_answer(an_error(2017, "No job", meta=THERE), 500)
    cluster = (
        ScriptedCluster("v0.0.44")
        .on("GET", "/nodes", an_answer({"nodes": [], "errors": [], "meta": HERE}))
        .on("GET", "/slurm/v0.0.44/jobs", an_answer({"jobs": [], "errors": [], "meta": THERE}))
        .on("DELETE", "/job/7", gone)
    )
    client = a_client(cluster, cluster="hpc")
    client.controller.nodes()
    for _ in range(2):
        with pytest.raises(AnotherCluster, match="this address answers as lab"):
            client.controller.cancel(7)
    assert sent(cluster) == ["DELETE"]


def test_an_empty_queue_is_not_taken_for_ours() -> None:
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/slurm/v0.0.38/jobs", EMPTY)
        .on("GET", "/clusters", clusters("hpc"), clusters("lab"))
    )
    connector = a_connector(cluster, "hpc")
    assert connector.observe().unread == ()
    connector._confirmed_s -= 2
    with pytest.raises(AnotherCluster):
        connector.observe()


def test_of_an_empty_queue_of_whomever_nothing_is_concluded() -> None:
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/slurm/v0.0.38/jobs", EMPTY)
        .on("GET", "/clusters", an_answer(an_error(7000, "No database"), 500))
    )
    seen = a_connector(cluster, "hpc").observe()
    assert [one.native_id for one in seen.unread] == [None]
    assert seen.may_have("17")
    assert a_connector(cluster, None).observe().unread == ()


@pytest.mark.parametrize("told", [clusters("hpc"), clusters("hpc", "lab")])
def test_the_inventory_tells_who_it_is(told: httpx.Response) -> None:
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/partitions", an_answer({"partitions": [], "errors": []}))
        .on("GET", "/nodes", an_answer({"nodes": [], "errors": []}))
        .on("GET", "/clusters", told)
    )
    tags = secret_mark(OPTIONS["tag_secret"].encode())
    is_alone = told.content.count(b"name") == 1
    assert a_connector(cluster, None).inventory().identity == (
        {"tags": tags} | ({"cluster": "hpc"} if is_alone else {})
    )


def test_the_inventory_tells_the_time_limits_of_its_pools() -> None:
    """Planted: an endless partition limited jobs to nothing."""
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/partitions", an_answer({"partitions": [LIMITED, ENDLESS], "errors": []}))
        .on("GET", "/nodes", an_answer({"nodes": [], "errors": []}))
        .on("GET", "/clusters", clusters("hpc"))
    )
    pools = {name: {"partition": name, "gres_type": name} for name in ("h100", "a100", "v100")}
    connector = SlurmConnector(parse_options({**OPTIONS, "pools": pools}), PlainTokens())
    connector._rest = a_client(cluster)
    assert connector.inventory().time_limits_s == {"h100": 7_200}


LIMITED = {"name": "h100", "state": "UP", "nodes": "", "max_time_limit": 120, "tres": ""}
ENDLESS = {**LIMITED, "name": "a100", "max_time_limit": None}


def test_another_tag_secret_is_refused() -> None:
    mark = secret_mark(OPTIONS["tag_secret"].encode())
    open_slurm(OPTIONS, "c", {"tags": mark, "cluster": "hpc"})
    with pytest.raises(ValueError, match="is not the one with which the jobs on it were signed"):
        open_slurm({**OPTIONS, "tag_secret": "f" * 32}, "c", {"tags": mark})
    assert mark not in OPTIONS["tag_secret"]
