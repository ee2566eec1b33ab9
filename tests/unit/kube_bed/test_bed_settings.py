"""The bed's settings: from the environment, then from its folder."""

from pathlib import Path

import pytest

from kubebed.objects import BLOCK_LABEL, RACK_LABEL, all_nodes
from kubebed.runner.work import WorkQueue
from kubebed.settings import BedError, read_settings


def test_a_bed_keeps_the_settings_of_its_first_start(tmp_path: Path) -> None:
    """Given kept settings, another environment changes nothing but the folder."""
    folder = tmp_path / "bed"
    folder.mkdir()
    env = {
        "TIDEGATE_KUBE_BED": str(folder),
        "KUBE_BED_PORT": "20000",
        "KUBE_BED_NODES": "16",
        "KUBE_BED_BIN": "/somewhere",
    }
    first = read_settings(env)
    first.keep()

    assert (first.h100_nodes, first.a100_nodes, first.port("etcd")) == (16, 4, 20001)
    assert read_settings({"TIDEGATE_KUBE_BED": str(folder), "KUBE_BED_NODES": "2"}) == first


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("KUBE_BED_PORT", "80", "must be a whole number from 1024 to 65000"),
        ("KUBE_BED_NODES", "many", "must be a whole number from 1 to 1000"),
        ("TIDEGATE_KUBE_BED", "here", "must be an absolute path"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    variable: str, value: str, said: str, tmp_path: Path
) -> None:
    """Given nonsense, the sentence names the variable and what it may be. A bed of this machine,
    which would keep its own settings, is elsewhere."""
    env = {"HOME": "/nowhere", "TIDEGATE_KUBE_BED": str(tmp_path / "none"), variable: value}
    with pytest.raises(BedError, match=f"{variable} is '{value}' and {said}"):
        read_settings(env)


def test_each_model_begins_with_a_block_of_its_own(tmp_path: Path) -> None:
    """Given 40 and 8 nodes, racks have 8 and no block has both models."""
    env = {
        "TIDEGATE_KUBE_BED": str(tmp_path / "none"),
        "KUBE_BED_NODES": "40",
        "KUBE_BED_A100_NODES": "8",
    }
    places = {
        node["metadata"]["name"]: (
            node["metadata"]["labels"][BLOCK_LABEL],
            node["metadata"]["labels"][RACK_LABEL],
        )
        for node in all_nodes(read_settings(env))
    }
    assert len(places) == 48
    assert places["h100-000"] == ("block-0", "rack-0")
    assert places["h100-031"] == ("block-0", "rack-3")
    assert places["h100-039"] == ("block-1", "rack-4")
    assert places["a100-007"] == ("block-2", "rack-8")


def test_a_name_is_worked_on_by_one_at_a_time_and_once_more_if_it_changed() -> None:
    """Given a name added while it is worked on, it comes back when that is done, once."""
    work = WorkQueue()
    work.add("a")
    work.add("a")
    work.add("b")
    assert work.take() == "a"
    work.add("a")
    work.add("a")
    assert work.take() == "b"
    work.done("b")
    work.done("a")
    assert work.take() == "a"
    work.done("a")
    work.add_after("c", 0.01)
    assert work.take() == "c"
