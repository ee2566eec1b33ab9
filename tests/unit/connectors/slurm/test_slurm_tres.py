"""Trackable resources as Slurm writes them."""

import pytest

from connectors.slurm import tres


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("", {}),
        ("cpu=8,mem=15625G,node=1,billing=8", {tres.CORES: 8}),
        ("cpu=0,mem=1G", {}),
        ("cpu=1,mem=2000M,gres/gpu=2", {"": 2}),
        ("cpu=8,gres/gpu=16,gres/gpu:h100=16", {"h100": 16}),
        ("gres/gpu:a100=4,gres/gpu:h100=2", {"a100": 4, "h100": 2}),
        ("gres/gpu=8,gres/gpu:a100=3", {"a100": 3, "": 5}),
        ("gres/gpu=0,gres/gpu:h100=0", {}),
        ("gres/gpumem=80G,gres/gpu=1", {"": 1}),
    ],
)
def test_gpus_are_counted_by_type(text: str, gpus: dict[str, int]) -> None:
    assert tres.gpus_in(text) == gpus


@pytest.mark.parametrize(
    "text", ["gpu", "gres/gpu=x", "gres/gpu=-1", "gres/gpu=2.5", "x" * 100_001]
)
def test_text_that_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"resource|whole number|too long"):
        tres.gpus_in(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gres/gpu:h100:2", 2),
        ("gres:gpu:2", 2),
        ("gpu:a100:4", 4),
        ("gres/gpu", 1),
        ("gres/gpu:h100=8", 8),
        ("gres/gpu:h100", 1),
        ("gres:gpu:h100:2,gres:license:1", 2),
        ("", 0),
        ("gres/shard:2", 0),
        ("gres:gpu:1g.10gb:2", 2),
        ("gres/gpu:1g.10gb", 1),
        ("gres/gpu:12=2", 0),
    ],
)
def test_gpus_per_node(text: str, count: int) -> None:
    assert tres.gpus_per_node(text) == count


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:h100:2(IDX:0-1)", {"h100": 2}),
        ("gpu:h100:3(IDX:0-1,3),gpu:a100:1(IDX:0)", {"h100": 3, "a100": 1}),
        ("gpu:a100:1(IDX:1),gpu:1g.10gb:2(IDX:2-3),gpu:x:0(IDX:)", {"a100": 1, "1g.10gb": 2}),
        ("gpu:1(IDX:0)", {"": 1}),
        ("", {}),
    ],
)
def test_gpus_in_a_nodes_detail(text: str, gpus: dict[str, int]) -> None:
    assert tres.gpus_in_detail(text) == gpus


def test_names_for_the_accounting_go_there_and_back() -> None:
    assert tres.split_name("gres/gpu:h100") == ("gres", "gpu:h100")
    assert tres.split_name("cpu") == ("cpu", "")
    assert tres.joined_name("gres", "gpu") == "gres/gpu"
    assert tres.joined_name("cpu", "") == tres.joined_name("cpu", None) == "cpu"
