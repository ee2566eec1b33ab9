"""Lines of waiting jobs, and which of them are of one class."""

from __future__ import annotations

from arbiter.lines import Group, Lines
from arbiter.placement import Shape
from arbiter.queue_order import Priority
from arbiter.snapshot import QueuedJob
from builders.arbiter_builders import GPU, a_queued

TEAMS = {"o/a": 1, "o/b": 2}


def group_of(job: QueuedJob) -> Group:
    """As a pool without topology and features would have it."""
    shape = Shape(job.mgpu_per_node, job.node_count, job.clusters, job.mgpu)
    return Group(TEAMS.get(job.team), shape, Priority(job.priority_class), None, 0)


def kin(lines: Lines) -> dict[int, list[tuple[int | None, list[list[str]]]]]:
    """By the GPUs of a rank: the team of each class, and the ids of the jobs in its lines."""
    return {
        shape.mgpu // GPU: [
            (one.group.team, [[job for _, job in line.ages] for line in one.lines])
            for one in of_shape.values()
        ]
        for shape, of_shape in lines.by_shape(group_of).items()
    }


def test_lines_of_users_and_like_shapes_stand_together() -> None:
    lines = Lines()
    lines.fill(
        [
            a_queued("j1", "o/a", gpus=1),
            a_queued("j2", "o/a", gpus=1, user="bob"),
            a_queued("j3", "o/b", gpus=1),
            a_queued("j4", "o/a", gpus=2),
            a_queued("j5", "o/a", gpus=1),
        ]
    )
    assert kin(lines) == {1: [(1, [["j1", "j5"], ["j2"]]), (2, [["j3"]])], 2: [(1, [["j4"]])]}


def test_who_comes_and_goes_between_two_questions_changes_nothing_else() -> None:
    """Planted bugs that died of it: a line that closes stays among its kin; a class or a shape
    without lines stays; one that nobody asked about yet is looked for among those asked about."""
    lines = Lines()
    lines.fill(
        [
            a_queued("j1", "o/a", gpus=1),
            a_queued("j2", "o/a", gpus=1, user="bob"),
            a_queued("j3", "o/b", gpus=2),
        ]
    )
    assert kin(lines) == {1: [(1, [["j1"], ["j2"]])], 2: [(2, [["j3"]])]}
    lines.remove("j1")
    lines.remove("j3")
    lines.add(a_queued("j4", "o/b", gpus=1))
    lines.add(a_queued("j5", "o/b", gpus=4))
    lines.remove("j5")
    assert kin(lines) == {1: [(1, [["j2"]]), (2, [["j4"]])]}
    lines.remove("j2")
    assert kin(lines) == {1: [(2, [["j4"]])]}


def test_once_groups_are_forgotten_all_lines_are_asked_about_anew() -> None:
    """Planted bug that died of it: a line still knows its kin of before when it closes."""
    lines = Lines()
    lines.fill([a_queued("j1", "o/a", gpus=1), a_queued("j2", "o/c", gpus=1)])
    assert kin(lines) == {1: [(1, [["j1"]]), (None, [["j2"]])]}
    lines.forget_groups()
    lines.remove("j1")
    assert kin(lines) == {1: [(None, [["j2"]])]}
