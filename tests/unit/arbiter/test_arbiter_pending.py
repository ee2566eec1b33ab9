"""Waiting jobs by user, and which of them are of one class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from arbiter.api.plan import Code
from arbiter.api.snapshot import QueuedJob
from arbiter.fairshare.fair_tree import FairShares, FairUse
from arbiter.placement.free_devices import Shape
from arbiter.queue.order import Priority, TeamQueue
from arbiter.queue.pending import Group, PendingQueue
from arbiter.quota.tree import tree_of
from builders.arbiter_builders import GPU, a_node, a_queued

TEAMS = {"o/a": 1, "o/b": 2}


def group_of(job: QueuedJob) -> Group:
    """As a pool without topology and features would have it."""
    shape = Shape(job.mgpu_per_node, job.node_count, job.clusters, job.mgpu)
    return Group(TEAMS.get(job.team), shape, Priority(job.priority_class), None, 0)


def classes_of(pending: PendingQueue) -> dict[int, list[tuple[int | None, list[list[str]]]]]:
    """By the GPUs of a rank: the team of each class, and the ids of its jobs by user."""
    return {
        shape.mgpu // GPU: [
            (one.group.team, [[job for _, job in of_user.ages] for of_user in one.by_user])
            for one in of_shape.values()
        ]
        for shape, of_shape in pending.by_shape(group_of).items()
    }


def test_jobs_of_one_user_and_of_one_shape_are_grouped() -> None:
    pending = PendingQueue()
    pending.fill(
        [
            a_queued("j1", "o/a", gpus=1),
            a_queued("j2", "o/a", gpus=1, user="bob"),
            a_queued("j3", "o/b", gpus=1),
            a_queued("j4", "o/a", gpus=2),
            a_queued("j5", "o/a", gpus=1),
        ]
    )
    assert classes_of(pending) == {
        1: [(1, [["j1", "j5"], ["j2"]]), (2, [["j3"]])],
        2: [(1, [["j4"]])],
    }


def test_who_comes_and_goes_between_two_questions_changes_nothing_else() -> None:
    """Planted bugs that died of it: jobs that are gone stay in their class; a class or a shape
    without jobs stays; one that nobody asked about yet is looked for among those asked about."""
    pending = PendingQueue()
    pending.fill(
        [
            a_queued("j1", "o/a", gpus=1),
            a_queued("j2", "o/a", gpus=1, user="bob"),
            a_queued("j3", "o/b", gpus=2),
        ]
    )
    assert classes_of(pending) == {1: [(1, [["j1"], ["j2"]])], 2: [(2, [["j3"]])]}
    pending.remove("j1")
    pending.remove("j3")
    pending.add(a_queued("j4", "o/b", gpus=1))
    pending.add(a_queued("j5", "o/b", gpus=4))
    pending.remove("j5")
    assert classes_of(pending) == {1: [(1, [["j2"]]), (2, [["j4"]])]}
    pending.remove("j2")
    assert classes_of(pending) == {1: [(2, [["j4"]])]}


def test_once_groups_are_forgotten_all_lines_are_asked_about_anew() -> None:
    """Planted bug that died of it: jobs still know their class of before when the last one goes."""
    pending = PendingQueue()
    pending.fill([a_queued("j1", "o/a", gpus=1), a_queued("j2", "o/c", gpus=1)])
    assert classes_of(pending) == {1: [(1, [["j1"]]), (None, [["j2"]])]}
    pending.forget_groups()
    pending.remove("j1")
    assert classes_of(pending) == {1: [(None, [["j2"]])]}


def shares(used: dict[str, int] | None = None) -> FairShares:
    """What users of o/a have used."""
    tree = tree_of([a_node(path) for path in ("o", "o/a", "o/b")])
    by_user = defaultdict(dict, {TEAMS["o/a"]: used or {}})
    return FairShares(tree, [100] * 3, FairUse([0] * 3, by_user, [0] * 3, (1,) * 3))


def prepared(
    pending: PendingQueue, left_out: Collection[str] = (), used: dict[str, int] | None = None
) -> dict[int, list[str]]:
    """By team, the jobs in the order of its queue; they are taken out of it on the way."""
    pending.prepare_queues(group_of, left_out, shares(used), lambda job: True)
    found = {}
    for team, queue in sorted(pending.queues.items()):
        pending.touch(team)
        found[team] = []
        while (of_user := queue.head()) is not None:
            found[team].append(of_user.job[1])
            queue.advance()
    return found


def test_queues_that_nothing_changed_are_kept_and_the_others_are_as_they_should_be() -> None:
    """Planted bugs that died of it: a job that comes first now, or the one behind the first that is
    gone, is not seen; a user who is gone stays in the queue; a queue without jobs stays."""
    pending = PendingQueue()
    pending.fill(
        [
            a_queued("j2", "o/a", gpus=1, submitted_at=5),
            a_queued("k2", "o/a", gpus=2, submitted_at=6),
            a_queued("j3", "o/b", gpus=1),
        ]
    )
    pending.prepare_queues(group_of, (), shares(), lambda job: True)
    before = dict(pending.queues)
    pending.prepare_queues(group_of, (), shares(), lambda job: True)
    assert pending.queues == before
    pending.add(a_queued("j4", "o/b", gpus=2))
    pending.add(a_queued("k1", "o/a", gpus=2, submitted_at=4))
    pending.prepare_queues(group_of, (), shares(), lambda job: True)
    assert pending.queues[1] is before[1]
    head = pending.queues[1].head()
    assert head is not None
    assert head.job[1] == "k1"
    pending.remove("k1")
    assert prepared(pending) == {1: ["j2", "k2"], 2: ["j3", "j4"]}
    pending.remove("j3")
    assert prepared(pending) == {1: ["j2", "k2"], 2: ["j4"]}
    pending.remove("j4")
    assert prepared(pending) == {1: ["j2", "k2"]}


def test_what_a_cycle_did_to_a_queue_is_gone_in_the_next_one() -> None:
    """Planted bugs that died of it, each alone: codes, refused jobs, what is blocked, and the
    next jobs are those of the cycle before; who was left out once is left out for good."""
    pending = PendingQueue()
    pending.fill([a_queued("j1", "o/a", gpus=1), a_queued("j2", "o/a", gpus=2)])
    pending.add(a_queued("j3", "o/a", gpus=1))
    assert prepared(pending, left_out=["j1"]) == {1: ["j2", "j3"]}
    assert prepared(pending) == {1: ["j1", "j2", "j3"]}
    queue = pending.queues[1]
    pending.touch(1)
    pending.prepare_queues(group_of, (), shares(), lambda job: True)
    queue.blocked_mgpu = GPU
    queue.classes[0].code = Code.WAITING_FOR_FREE_GPUS
    queue.refuse(queue.classes[1], lambda age: True)
    pending.touch(1)
    assert prepared(pending) == {1: ["j1", "j2", "j3"]}
    assert waits(queue) == (0, [None, None], [[], []])


def waits(queue: TeamQueue) -> tuple[int, list[Code | None], list[list[tuple[int, str]]]]:
    """What is blocked, and of each class the code and who is refused."""
    codes = [cls.code for cls in queue.classes]
    return (
        queue.blocked_mgpu,
        codes,
        [of_user.refused for cls in queue.classes for of_user in cls.user_queues],
    )


def test_users_of_one_priority_are_compared_anew_in_each_cycle() -> None:
    """Planted: a queue that nothing touched has the order of the cycle before."""
    pending = PendingQueue()
    pending.fill(
        [
            a_queued("j1", "o/a", gpus=1),
            a_queued("j2", "o/a", gpus=1, user="bob"),
        ]
    )
    pending.prepare_queues(group_of, (), shares({"bob": 5}), lambda job: True)
    head = pending.queues[1].head()
    assert head is not None
    assert head.job[1] == "j1"
    user = pending.jobs["j1"].user
    pending.prepare_queues(group_of, (), shares({"bob": 5, user: 6}), lambda job: True)
    head = pending.queues[1].head()
    assert head is not None
    assert head.job[1] == "j2"
