from pathlib import Path
from typing import Any

import pytest

from connectors.local.options import Node, parse_options, unit_mgpu
from primitives.units import DeviceKind


def test_defaults() -> None:
    options = parse_options({"root": "/somewhere"})
    assert len(options.virtual_nodes) == 125
    assert options.virtual_nodes[0] == Node("node-001", "h100", 8, is_real=False)
    assert options.virtual_nodes[-1].name == "node-125"
    assert (options.use_real_gpus, options.log_cap_bytes) == ("auto", 16 << 20)
    assert options.run_as is None


def test_groups_of_nodes() -> None:
    groups = [
        {"count": 2, "gpus": 8, "pool": "h100", "prefix": "big-"},
        {"count": 1, "gpus": 1, "pool": "a100-80g", "prefix": "small-", "features": ["ib", "ib"]},
        {"count": 1, "prefix": "r1-", "domains": {"block": "b", "rack": "r1"}},
    ]
    options = parse_options({"root": Path("/somewhere"), "nodes": groups})
    assert options.virtual_nodes == (
        Node("big-001", "h100", 8, is_real=False),
        Node("big-002", "h100", 8, is_real=False),
        Node("small-001", "a100-80g", 1, is_real=False, features=("ib",)),
        Node("r1-001", "h100", 8, is_real=False, domains={"block": "b", "rack": "r1"}),
    )


def test_each_shared_gpu_is_a_node() -> None:
    """Planted: all of them are device 0; the unshared group beside it is cut up, too."""
    groups = [
        {"count": 1, "gpus": 2, "pool": "h100", "prefix": "big-"},
        {"count": 2, "gpus": 2, "pool": "l4", "prefix": "s-", "shared": True, "features": ["ib"]},
    ]
    options = parse_options({"root": "/somewhere", "nodes": groups})
    assert [
        (node.name, node.pool, node.devices, node.first_device, node.is_shared, node.features)
        for node in options.virtual_nodes
    ] == [
        ("big-001", "h100", 2, 0, False, ()),
        ("s-001-gpu0", "l4", 1, 0, True, ("ib",)),
        ("s-001-gpu1", "l4", 1, 1, True, ("ib",)),
        ("s-002-gpu0", "l4", 1, 0, True, ("ib",)),
        ("s-002-gpu1", "l4", 1, 1, True, ("ib",)),
    ]


def test_parts_are_given_out_of_shared_gpus() -> None:
    """Planted: the default of a group's pool is not known; a single group is no list."""
    shared = {"pool": "l4", "shared": True}
    assert unit_mgpu({}, "h100") == unit_mgpu({"nodes": {}}, "h100") == 1000
    assert unit_mgpu({"nodes": {"shared": True}}, "h100") == 1
    assert unit_mgpu({"nodes": [{"gpus": 4}, shared]}, "h100") == 1000
    assert unit_mgpu({"nodes": [{"gpus": 4}, shared]}, "l4") == 1


def test_a_group_of_cores() -> None:
    groups = [{"count": 2, "cores": 64, "pool": "cpu", "prefix": "c-", "features": ["avx"]}]
    options = parse_options({"root": "/somewhere", "nodes": groups})
    assert options.virtual_nodes == (
        Node("c-001", "cpu", 64, is_real=False, features=("avx",), device=DeviceKind.CPU),
        Node("c-002", "cpu", 64, is_real=False, features=("avx",), device=DeviceKind.CPU),
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"root": "relative"}, "absolute path"),
        ({"root": None}, "absolute path"),
        ({"typo": 1}, "unknown options of a local cluster: typo"),
        ({"use_real_gpus": "yes"}, "use_real_gpus"),
        ({"log_cap_bytes": -1}, "log_cap_bytes"),
        ({"log_cap_bytes": True}, "log_cap_bytes"),
        ({"log_cap_bytes": 1.5}, "log_cap_bytes"),
        ({"nodes": []}, "option nodes"),
        ({"nodes": "node"}, "option nodes"),
        ({"nodes": [3]}, "a group of nodes"),
        ({"nodes": {"size": 3}}, "a group of nodes"),
        ({"nodes": {"count": 0}}, "count"),
        ({"nodes": {"count": 10_001}}, "count"),
        ({"nodes": {"count": 5_001, "gpus": 2, "shared": True}}, "a shared GPU counts as one"),
        ({"nodes": {"shared": 1}}, "shared of a group must be true or false"),
        (
            {"nodes": [{"prefix": "a"}, {"prefix": "b", "shared": True}]},
            "some groups of pool 'h100' are shared and some are not; give GPUs of which jobs may",
        ),
        ({"nodes": {"gpus": -1}}, "gpus"),
        ({"nodes": {"cores": -1, "pool": "cpu"}}, "cores"),
        ({"nodes": {"cores": 8}}, "a group of nodes with cores must name its pool"),
        ({"nodes": {"cores": 8, "gpus": 1, "pool": "cpu"}}, "has neither gpus nor domains"),
        ({"nodes": {"cores": 8, "pool": "cpu", "domains": {}}}, "has neither gpus nor domains"),
        ({"nodes": {"cores": 8, "pool": "cpu", "shared": True}}, "nor is shared"),
        ({"nodes": {"prefix": "a b"}}, "letters"),
        ({"nodes": {"prefix": "x" * 99}}, "letters"),
        ({"nodes": {"pool": ""}}, "letters"),
        ({"nodes": [{"count": 1}, {"count": 1}]}, "no name twice"),
        ({"nodes": {"domains": ["r1"]}}, "domains of a group must give some of block, rack"),
        ({"nodes": {"domains": {"row": "1"}}}, "domains of a group"),
        ({"nodes": {"domains": {"rack": "r 1"}}}, "domains of a group"),
        ({"nodes": {"domains": {"rack": 1}}}, "domains of a group"),
        ({"nodes": {"features": "ib"}}, "features of a group"),
        ({"nodes": {"features": ["a b"]}}, "features of a group"),
        ({"nodes": {"features": ["ib\n"]}}, "features of a group"),
        ({"nodes": {"features": ["f"] * 65}}, "at most 64"),
        ({"run_as": "alice"}, "run_as"),
    ],
)
def test_bad_options_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_options({"root": "/somewhere", **changes})
