from pathlib import Path
from typing import Any

import pytest

from connectors.local.options import Node, parse_options
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
        ({"nodes": {"gpus": -1}}, "gpus"),
        ({"nodes": {"cores": -1, "pool": "cpu"}}, "cores"),
        ({"nodes": {"cores": 8}}, "a group of nodes with cores must name its pool"),
        ({"nodes": {"cores": 8, "gpus": 1, "pool": "cpu"}}, "has neither gpus nor domains"),
        ({"nodes": {"cores": 8, "pool": "cpu", "domains": {}}}, "has neither gpus nor domains"),
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
