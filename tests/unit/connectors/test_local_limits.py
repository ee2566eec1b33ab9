"""Cgroups of ranks, against a folder tree that is laid out as the kernel's.

The kernel's own part, that it keeps a rank within what is written there, is not tested here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connectors.local.limits import (
    Limits,
    join_cgroup,
    read_limits,
    remove_cgroups,
    usable_cgroups,
)

OFFERED = "cpuset cpu io memory hugetlb pids rdma misc\n"
ENABLED = "+cpu +memory +pids"


@dataclass
class Tree:
    """A mount of cgroups of version 2 that offers these controllers."""

    root: Path

    def written(self) -> dict[str, str]:
        """Each file below the root but the list of controllers, with what is in it."""
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and path.name != "cgroup.controllers"
        }


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "cgroup.controllers").write_text(OFFERED)
    return Tree(tmp_path)


def limits(cgroups: str, **changes: Any) -> Limits:
    asked: dict[str, Any] = {"memory_bytes": 512 << 20, "cpu_milli": 2_500}
    return Limits(
        **{"processes": 64, "file_bytes": 1 << 20, "open_files": 100, "cgroups": cgroups}
        | asked
        | changes
    )


def test_the_three_controllers_are_enabled_down_to_the_ranks(tree: Tree) -> None:
    """Planted: not in our own folder. Its children would have no limits to set."""
    folder = usable_cgroups(str(tree.root))
    assert folder == f"{tree.root}/tidegate-jobs"
    files = {"cgroup.subtree_control": ENABLED, "tidegate-jobs/cgroup.subtree_control": ENABLED}
    assert tree.written() == files
    assert usable_cgroups(str(tree.root)) == folder


@pytest.mark.parametrize("missing", ["cpu", "memory", "pids"])
def test_where_a_controller_is_missing_there_are_none(tree: Tree, missing: str) -> None:
    """As where version 1 has it. Planted: any one of the three is enough."""
    offered = [name for name in OFFERED.split() if name != missing]
    (tree.root / "cgroup.controllers").write_text(" ".join(offered) + "\n")
    assert (usable_cgroups(str(tree.root)), tree.written()) == ("", {})


def test_where_version_2_is_not_mounted_or_refuses_there_are_none(tree: Tree) -> None:
    """Planted: the refusal is not caught."""
    assert usable_cgroups(str(tree.root / "nowhere")) == ""
    # A container's root has processes, so that the kernel refuses to enable controllers.
    (tree.root / "cgroup.subtree_control").mkdir()
    assert usable_cgroups(str(tree.root)) == ""
    assert tree.written() == {}


def test_a_rank_joins_a_cgroup_with_what_its_job_asks_for(tree: Tree) -> None:
    """Planted: CPU in milli-cores; memory in MiB."""
    join_cgroup(limits(str(tree.root)), "attempt-0")
    assert tree.written() == {
        "attempt-0/cgroup.procs": "0",
        "attempt-0/cpu.max": "250000 100000",
        "attempt-0/memory.max": "536870912",
        "attempt-0/pids.max": "64",
    }


def test_what_is_not_asked_for_is_not_bounded(tree: Tree) -> None:
    join_cgroup(limits(str(tree.root), memory_bytes=None, cpu_milli=None), "attempt-1")
    assert tree.written() == {"attempt-1/cgroup.procs": "0", "attempt-1/pids.max": "64"}
    join_cgroup(limits(""), "attempt-2")
    assert not (tree.root / "attempt-2").exists()


def test_the_least_cpu_is_what_the_kernel_takes(tree: Tree) -> None:
    """It refuses less than a millisecond. Planted: the share as it is."""
    join_cgroup(limits(str(tree.root), cpu_milli=5), "attempt-0")
    assert tree.written()["attempt-0/cpu.max"] == "1000 100000"


@pytest.mark.parametrize("refused", ["pids.max", "memory.max", "cpu.max"])
def test_what_cannot_be_bounded_does_not_join(tree: Tree, refused: str) -> None:
    """Planted: the rank joins before its limits are written."""
    (tree.root / "attempt-0" / refused).mkdir(parents=True)
    with pytest.raises(OSError, match=refused):
        join_cgroup(limits(str(tree.root)), "attempt-0")
    assert "attempt-0/cgroup.procs" not in tree.written()


def test_only_cgroups_in_which_nothing_is_left_are_removed(tree: Tree) -> None:
    """Planted: the first that is in use ends it with an error."""
    for name in ("busy/child", "left", "other"):
        (tree.root / name).mkdir(parents=True)
    remove_cgroups(limits(str(tree.root)), ["busy", "gone", "left"])
    assert {path.name for path in tree.root.iterdir() if path.is_dir()} == {"busy", "other"}


def test_the_record_of_an_attempt_keeps_them(tree: Tree) -> None:
    for asked in (limits(str(tree.root)), limits("", memory_bytes=None, cpu_milli=None)):
        assert vars(read_limits(asked.to_json())) == vars(asked)
