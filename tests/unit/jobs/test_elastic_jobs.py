"""Jobs of a range of GPUs: what is read, refused, laid out, stored, previewed and granted."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from billing.models import MeteredAttempt
from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company, an_actor
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import load_snapshot
from jobs.errors import NeverFits
from jobs.execution.workloads import workload_of
from jobs.models import Attempt, Job
from jobs.submission.fitting import lay_out_elastic
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from jobs.whatif.preview import preview_job
from primitives.errors import InvalidRequest
from tenants.access import Actor
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    """Four nodes of 8 GPUs."""
    return a_company(nodes=4)


@pytest.fixture
def bob(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


def submit(actor: Actor, **changes: Any) -> Job:
    with transaction.atomic():
        return submit_job_here(read_job_request(a_body(**changes)), actor=actor, now=NOW)


def occupy(company: Company, user: User, nodes: int) -> None:
    """A job runs on the first nodes."""
    job = a_job(company, user, state="running", mgpu_per_node=8_000, node_count=nodes)
    names = tuple(company.cluster.nodes.order_by("name").values_list("name", flat=True)[:nodes])
    an_attempt(job, cluster=company.cluster, nodes=names)


def least_and_most(job: Job) -> tuple[int, int | None, int]:
    return job.mgpu_per_node, job.node_count_min, job.node_count


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gpus": 16, "gpus_min": 4}, (4_000, 1, 4)),
        ({"gpus": 32, "gpus_min": 16}, (8_000, 2, 4)),
        ({"gpus": 24, "gpus_min": 16}, (8_000, 2, 3)),
        ({"gpus": 3, "gpus_min": 2}, (1_000, 2, 3)),
        ({"gpus": 16, "gpus_min": 4, "nodes": 4}, (4_000, 1, 4)),
        ({"gpus": 16, "nodes": 2, "nodes_min": 1}, (8_000, 1, 2)),
        ({"gpus": ..., "gpus_per_node": 8, "nodes": 4, "nodes_min": 2}, (8_000, 2, 4)),
        ({"gpus": ..., "gpus_per_node": 8, "nodes": 400, "nodes_min": 2}, (8_000, 2, 400)),
        ({"gpus": 16, "gpus_min": 16}, (8_000, None, 2)),
        ({"gpus": ..., "gpus_per_node": 8, "nodes": 2, "nodes_min": 2}, (8_000, None, 2)),
        (
            {"gpus": ..., "script": ..., "sbatch": "#SBATCH -N 2-4 --gpus-per-node=8\ntrue\n"},
            (8_000, 2, 4),
        ),
    ],
)
def test_a_range_is_of_whole_equal_ranks(
    bob: Actor, changes: dict[str, Any], expected: tuple[int, int | None, int]
) -> None:
    job = submit(bob, **changes)
    assert least_and_most(job) == expected
    asked = next(one for one in load_snapshot(NOW).queued if one.id == str(job.pk))
    least = expected[1] or expected[2]
    assert (asked.node_count, asked.node_count_max) == (
        least,
        None if expected[1] is None else expected[2],
    )


@pytest.mark.parametrize(
    ("changes", "pointer", "detail"),
    [
        ({"gpus": 4, "gpus_min": 8}, "/gpus_min", "must be at most gpus"),
        ({"gpus": 1, "gpus_min": 0.5}, "/gpus_min", "and gpus must be whole GPUs"),
        ({"gpus": 4, "gpus_min": 0}, "/gpus_min", "must be above 0 and at most 10,000,000"),
        (
            {"gpus": 16, "gpus_min": 6, "nodes": 4},
            "/gpus_min",
            "must be a multiple of 4, as each node has",
        ),
        (
            {"gpus": ..., "gpus_per_node": 8, "nodes": 4, "gpus_min": 8},
            "/gpus_min",
            "goes with gpus; beside gpus_per_node and nodes say nodes_min",
        ),
        (
            {"gpus": 16, "gpus_min": 8, "nodes": 2, "nodes_min": 1},
            "/nodes_min",
            "give gpus_min or nodes_min, not both",
        ),
        ({"gpus": 16, "nodes_min": 1}, "/nodes_min", "goes with nodes, which is the most"),
        ({"gpus": 16, "nodes": 2, "nodes_min": 3}, "/nodes_min", "must be at most nodes"),
        ({"gpus": 16, "nodes": 2, "nodes_min": 0}, "/nodes_min", "must be from 1 to 4,096"),
    ],
)
def test_what_is_no_range_is_refused(changes: dict[str, Any], pointer: str, detail: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(a_body(**changes))
    assert [(error.pointer, error.detail) for error in refusal.value.errors] == [(pointer, detail)]


@pytest.mark.parametrize(
    ("least", "most", "largest", "expected"),
    [
        (4, 16, 8, (4_000, 1, 4)),
        (1, 8, 8, (1_000, 1, 8)),
        (24, 48, 8, (8_000, 3, 6)),
        (20, 40, 8, (4_000, 5, 10)),
        (4, 16, None, (4_000, 1, 4)),
        (1, 5_000, 8, None),
    ],
)
def test_ranks_are_as_large_as_least_and_most_allow(
    least: int, most: int, largest: int | None, expected: tuple[int, int, int] | None
) -> None:
    largest_mgpu = None if largest is None else largest * 1_000
    found = lay_out_elastic(least * 1_000, most * 1_000, largest_mgpu, lambda mgpu: 10_000)
    assert found == expected


def test_a_range_of_more_ranks_than_there_can_be_is_refused(bob: Actor) -> None:
    """Planted: it is taken for a job of its least alone, without a word."""
    with pytest.raises(NeverFits) as refusal:
        submit(bob, gpus=5_000, gpus_min=1)
    assert refusal.value.data["numbers"]["need_mgpu"] == 5_000_000


def test_it_is_told_how_it_was_laid_out(bob: Actor) -> None:
    (note,) = submit(bob, gpus=16, gpus_min=4).notes
    assert note["detail"] == (
        "This job takes 1 node at least and 4 nodes at most with 4 GPUs each. To choose the "
        "layout, ask for nodes and GPUs per node instead."
    )


def test_only_the_least_must_fit_some_day(bob: Actor) -> None:
    submit(bob, gpus=..., gpus_per_node=8, nodes=99, nodes_min=4)
    with pytest.raises(NeverFits) as refusal:
        submit(bob, gpus=..., gpus_per_node=8, nodes=99, nodes_min=5)
    assert refusal.value.data["numbers"]["need_mgpu"] == 40_000


@pytest.mark.parametrize("least", [0, 4, 5])
def test_the_database_keeps_least_below_most(company: Company, least: int) -> None:
    bob = an_actor(company.nlp, Role.RESEARCHER, "bob").user
    with pytest.raises(IntegrityError, match="elastic_job_is_content_with_fewer_nodes"):
        a_job(company, bob, mgpu_per_node=8_000, node_count=4, node_count_min=least)


def test_what_is_granted_is_what_starts_and_what_is_billed(
    company: Company, bob: Actor, cycles: Cycles
) -> None:
    """Mutants that die here: the attempt, or the meter, has what was asked for at most; the
    workload has a rank more."""
    occupy(company, bob.user, 1)
    job = submit(bob, gpus=..., gpus_per_node=8, nodes=4, nodes_min=2)
    cycles.run(NOW)
    attempt = Attempt.objects.get(job=job)
    assert (attempt.mgpu, len(attempt.slots)) == (24_000, 3)
    assert [slot.mgpu for slot in workload_of(attempt).slots] == [8_000] * 3
    assert MeteredAttempt.objects.get(pk=attempt.pk).mgpu == 24_000
    body = by_token(bob.user).get(f"jobs/{job.pk}").json()
    assert (body["node_count_min"], body["node_count"]) == (2, 4)
    assert (body["mgpu_min"], body["mgpu"]) == (16_000, 32_000)
    assert body["current_attempt"]["mgpu"] == 24_000


def test_a_preview_says_with_how_many_it_would_start(company: Company, bob: Actor) -> None:
    request = read_job_request(a_body(gpus=..., gpus_per_node=8, nodes=9, nodes_min=2))
    would = preview_job(request, actor=bob, now=NOW)
    assert (would.would_start_now, would.mgpu) == (True, 32_000)
    assert would.explanation["sentence"] == "It would start now on local with 32 GPUs."
    occupy(company, bob.user, 3)
    would = preview_job(request, actor=bob, now=NOW)
    assert (would.would_start_now, would.mgpu) == (False, 16_000)
    assert would.explanation["sentence"].startswith(
        "It needs at least 16 GPUs (2 nodes with 8 each)"
    )
