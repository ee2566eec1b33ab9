"""What holds GPUs of several pools, and shards of GPUs.

Planted and seen to die: the first pool only; parts under one id; a job of one type cut in parts.
"""

from __future__ import annotations

from typing import Any

import pytest

from builders.slurm_rest_builders import PlainTokens, ScriptedCluster, a_client, an_answer
from connectors.protocol import NativeWorkload, RankSlot
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.naming import tag
from connectors.slurm.options import parse_options

OPTIONS: dict[str, Any] = {
    "url": "http://slurm.test",
    "service_user": "tidegate",
    "token_socket": "/run/tidegate/minter",
    "tag_secret": "0123456789abcdef0123456789abcdef",
    "pools": {
        "h100": {"partition": "h100", "gres_type": "h100"},
        "a100": {"partition": "a100", "gres_type": "a100"},
        "slices": {"partition": "a100", "gres_type": "1g.10gb"},
    },
}


def a_node(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": "idle",
        "partitions": [kind],
        "tres": f"cpu=8,gres/gpu=8,gres/gpu:{kind}=8",
        **more,
    }


def a_connector(job: dict[str, Any], *nodes: dict[str, Any]) -> SlurmConnector:
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("GET", "/slurm/v0.0.38/jobs", an_answer({"jobs": [job], "errors": []}))
        .on("GET", "/nodes", an_answer({"nodes": list(nodes), "errors": []}))
        .on("GET", "/partitions", an_answer({"partitions": [], "errors": []}))
        .on("GET", "/clusters", an_answer({"clusters": [], "errors": []}))
    )
    connector = SlurmConnector(parse_options(OPTIONS), PlainTokens())
    connector._rest = a_client(cluster)
    return connector


def a_job(tres: str, detail: list[str], nodes: str = "a01,h001") -> dict[str, Any]:
    return {
        "job_id": 7,
        "name": "mixed.sh",
        "user_name": "ana",
        "account": "a",
        "job_state": "RUNNING",
        "submit_time": 5,
        "start_time": 6,
        "nodes": nodes,
        "tres_req_str": tres,
        "tres_alloc_str": tres,
        "gres_detail": detail,
    }


def natives(job: dict[str, Any]) -> list[NativeWorkload]:
    nodes = (a_node("a01", "a100"), a_node("h001", "h100"), a_node("h002", "h100"))
    return list(a_connector(job, *nodes).observe().natives)


def told(found: list[NativeWorkload]) -> list[tuple[str, str, bool, tuple[RankSlot, ...]]]:
    return [(one.native_id, one.pool, one.is_mixed, one.slots) for one in found]


def test_gpus_of_several_pools_are_told_by_pool() -> None:
    tres = "gres/gpu=5,gres/gpu:a100=2,gres/gpu:h100=3"
    assert told(natives(a_job(tres, ["gpu:a100:2(IDX:0-1)", "gpu:h100:3(IDX:0-2)"]))) == [
        ("7 (a100)", "a100", True, (RankSlot("a01", 2000),)),
        ("7 (h100)", "h100", True, (RankSlot("h001", 3000),)),
    ]


def test_so_are_untyped_ones_on_nodes_of_several_pools() -> None:
    found = natives(a_job("gres/gpu=4", ["gpu:2(IDX:0-1)", "gpu:2(IDX:0-1)"]))
    assert [(one.pool, one.mgpu, one.is_mixed) for one in found] == [
        ("a100", 2000, True),
        ("h100", 2000, True),
    ]


def test_gpus_of_one_pool_are_one_workload() -> None:
    tres = "gres/gpu=4,gres/gpu:h100=4"
    detail = ["gpu:h100:2(IDX:0-1)", "gpu:h100:2(IDX:0-1)"]
    slots = (RankSlot("h001", 2000), RankSlot("h002", 2000))
    assert told(natives(a_job(tres, detail, "h[001-002]"))) == [("7", "h100", False, slots)]
    untyped = a_job("gres/gpu=4", ["gpu:2(IDX:0-1)", "gpu:2(IDX:0-1)"], "h[001-002]")
    assert told(natives(untyped)) == [("7", "h100", False, slots)]


SLICED = {"tres": "cpu=8,gres/gpu=8,gres/gpu:a100=2,gres/gpu:1g.10gb=6"}


def on_sliced_nodes(job: dict[str, Any]) -> list[NativeWorkload]:
    nodes = [a_node(name, "a100", **SLICED) for name in ("a02", "a03")]
    return list(a_connector(job, *nodes).observe().natives)


def test_gpus_of_several_types_on_one_node_are_told_by_pool() -> None:
    """As Slurm 22.05 says it of a job that asked for any 3 of them.

    Mutants: all of a node's are of its first pool; those that it holds none of count.
    """
    tres = "gres/gpu=3,gres/gpu:1g.10gb=2,gres/gpu:a100=1"
    detail = "gpu:a100:1(IDX:1),gpu:1g.10gb:2(IDX:5-6),gpu:h100:0(IDX:)"
    assert told(on_sliced_nodes(a_job(tres, [detail], "a02"))) == [
        ("7 (a100)", "a100", True, (RankSlot("a02", 1000),)),
        ("7 (slices)", "slices", True, (RankSlot("a02", 2000),)),
    ]
    # The accounting of some clusters counts GPUs without their types.
    untyped = a_job("gres/gpu=3", [detail], "a02")
    assert [one.pool for one in on_sliced_nodes(untyped)] == ["a100", "slices"]
    # Later releases say it of an only node by the whole job alone.
    whole = a_job(tres, [], "a02")
    assert {one.pool: one.mgpu for one in on_sliced_nodes(whole)} == {
        "a100": 1000,
        "slices": 2000,
    }


def test_slices_of_gpus_on_such_a_node_are_their_pools_alone() -> None:
    """Mutants: the first pool of the nodes; a type that begins with a digit is none."""
    tres = "gres/gpu=4,gres/gpu:1g.10gb=4"
    slots = (RankSlot("a02", 2000), RankSlot("a03", 2000))
    job = a_job(tres, ["gpu:1g.10gb:2(IDX:2-3)"] * 2, "a[02-03]")
    assert told(on_sliced_nodes(job)) == [("7", "slices", False, slots)]
    asked = {**a_job(tres, [], "a[02-03]"), "tres_per_node": "gres:gpu:1g.10gb:2"}
    assert told(on_sliced_nodes(asked)) == [("7", "slices", False, slots)]


@pytest.mark.parametrize(("nodes", "pool"), [("a01", "a100"), ("h001", "h100")])
def test_untyped_gpus_under_a_name_of_ours_are_of_their_nodes_pool(nodes: str, pool: str) -> None:
    job = a_job("gres/gpu=2", ["gpu:2(IDX:0-1)"], nodes)
    job["name"] = tag(OPTIONS["tag_secret"].encode(), "tg-1", "ana")
    connector = a_connector(job, a_node("a01", "a100"), a_node("h001", "h100"))
    seen = connector.observe().observations["tg-1"]
    assert (seen.pool, seen.slots) == (pool, (RankSlot(nodes, 2000),))


def test_shards_are_told() -> None:
    job = a_job("cpu=1", [])
    plain = a_connector(job, a_node("h001", "h100"))
    assert plain.inventory().complaints == ()
    for more in (
        {"gres": "gpu:h100:8(S:0),shard:h100:32(S:0)"},
        {"tres": "gres/gpu:h100=8,gres/gpu=8,gres/shard=32"},
    ):
        shared = a_connector(job, a_node("h001", "h100", **more), a_node("h002", "h100"))
        assert shared.inventory().complaints == (
            "1 nodes offer shards of their GPUs (gres/shard), h001 for one; what holds shards is "
            "not seen here, so GPUs may be promised that are not free. MIG slices, which are GPUs "
            "of a type of their own, are seen.",
        )
    cpu = a_node("c001", "x", tres="cpu=8,gres/shard=2")
    assert a_connector(job, cpu).inventory().complaints == ()
