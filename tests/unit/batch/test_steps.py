"""Which tasks a step has, and where."""

from __future__ import annotations

import pytest

from batch.command_line import Refused
from batch.places import Place
from batch.step_options import read_options
from batch.steps import Step, plan_step

FOUR = [Place(f"n{number}", range(8)) for number in (1, 2, 3, 4)]
OF_JOB = {"SLURM_NTASKS": "16", "SLURM_NTASKS_PER_NODE": "4"}


def planned(line: str, environment: dict[str, str] | None = None) -> Step:
    return plan_step(read_options(line.split())[0], environment or {}, FOUR)


def layout(step: Step) -> list[tuple[str, int]]:
    return [(place.node, count) for place, count in zip(step.places, step.counts, strict=True)]


@pytest.mark.parametrize(
    ("line", "of_job", "tasks"),
    [
        ("", {}, [("n1", 1), ("n2", 1), ("n3", 1), ("n4", 1)]),
        ("", OF_JOB, [("n1", 4), ("n2", 4), ("n3", 4), ("n4", 4)]),
        ("", {"SLURM_NTASKS": "2"}, [("n1", 1), ("n2", 1)]),
        ("-n 6", {}, [("n1", 2), ("n2", 2), ("n3", 1), ("n4", 1)]),
        ("-n 2", {}, [("n1", 1), ("n2", 1)]),
        ("-N 1 -n 1", OF_JOB, [("n1", 1)]),
        ("-N 2", OF_JOB, [("n1", 8), ("n2", 8)]),
        ("-N 2 --ntasks-per-node=3", {}, [("n1", 3), ("n2", 3)]),
        ("-N 2", {}, [("n1", 1), ("n2", 1)]),
        ("-N 4 --ntasks-per-node=1", OF_JOB, [("n1", 4), ("n2", 4), ("n3", 4), ("n4", 4)]),
        ("-n 4 --ntasks-per-node=1", OF_JOB, [("n1", 1), ("n2", 1), ("n3", 1), ("n4", 1)]),
        ("-N 1 -n 1 -w n3", OF_JOB, [("n3", 1)]),
        ("-w n4,n2 -n 2", {}, [("n2", 1), ("n4", 1)]),
        ("-w n[2-3]", {}, [("n2", 1), ("n3", 1)]),
        ("-w n3 -N 2 -n 2", {}, [("n1", 1), ("n3", 1)]),
        ("-x n1", {}, [("n2", 1), ("n3", 1), ("n4", 1)]),
        ("-N 1 -n 1 -r 2", {}, [("n3", 1)]),
    ],
)
def test_the_defaults_are_those_of_srun(
    line: str, of_job: dict[str, str], tasks: list[tuple[str, int]]
) -> None:
    assert layout(planned(line, of_job)) == tasks


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("-N 5", "the step asks for 5 nodes, and 4 of the job's 4 are left."),
        ("-N two", "--nodes=two is not a number of nodes."),
        ("-n x", "--ntasks=x is not a number."),
        ("-n 0", "a step has 1 to 10000 tasks, not 0."),
        ("-w n9", "--nodelist: n9 is not a node of this job."),
        ("-w n[1", "--nodelist: brackets do not match in the host list 'n[1'."),
        ("-x n[1-4]", "no node of the job is left for the step."),
        ("-r 4", "--relative=4: the job has 4 nodes, counted from 0."),
        ("--gpus-per-task=some", "--gpus-per-task=some is not a number of GPUs."),
    ],
)
def test_what_the_job_does_not_have_is_refused(line: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        planned(line)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("line", "devices"),
    [
        ("-N 1 -n 2", [(0, 1, 2, 3, 4, 5, 6, 7)] * 2),
        ("-N 1 -n 2 --gpus-per-task=2", [(0, 1), (2, 3)]),
        ("-N 1 -n 2 --gpus-per-task=h100:1", [(0,), (1,)]),
        ("-N 1 -n 2 --gres=gpu:2", [(0, 1), (0, 1)]),
        ("-N 1 -n 1 --gres=gpu", [(0,)]),
        ("-N 1 -n 1 --gres=gpu:h100:3,nvme:1", [(0, 1, 2)]),
        ("-N 1 -n 1 --gres=none", [()]),
        ("-N 2 -n 2 -G 4", [(0, 1), (0, 1)]),
    ],
)
def test_tasks_see_the_gpus_that_their_step_asks_for(
    line: str, devices: list[tuple[int, ...]]
) -> None:
    step = planned(line)
    held = [
        place.devices[:count] if step.reserves else place.devices
        for place, count in zip(step.places, step.needs(), strict=True)
    ]
    assert [task.devices for task in step.tasks(held)] == devices


def test_more_gpus_than_a_node_has_are_refused() -> None:
    with pytest.raises(Refused, match="asks for 16 GPUs on n1, where the job has 8"):
        planned("-N 1 -n 4 --gpus-per-task=4").needs()


def test_cyclic_tasks_go_round_the_nodes() -> None:
    step = planned("-N 2 -n 4 -m cyclic")
    tasks = step.tasks([place.devices for place in step.places])
    assert [(task.rank, task.place.node, task.local_rank) for task in tasks] == [
        (0, "n1", 0),
        (1, "n2", 0),
        (2, "n1", 1),
        (3, "n2", 1),
    ]
