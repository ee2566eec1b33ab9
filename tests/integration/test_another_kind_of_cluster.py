"""A fourth kind of cluster is one folder (`tests/toy_kind`) and one line in the registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from builders.api_callers import Caller, by_token
from builders.loop_builders import LoopOn
from builders.portal_builders import Company, a_company, an_actor
from clusters.models import Cluster
from connectors.registry import KINDS
from jobs.models import Attempt, Job
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from tenants.access import Actor
from tenants.roles import Role
from toy_kind.connector import CLUSTERS, ToyCluster
from toy_kind.kind import TOY

pytestmark = pytest.mark.django_db(transaction=True)
OPTIONS = {"address": "lab", "gpus_per_node": 4}


@pytest.fixture
def company() -> Company:
    """A company whose only cluster is disabled, so that all jobs go to the new one."""
    company = a_company(nodes=1)
    company.cluster.is_enabled = False
    company.cluster.save()
    return company


@pytest.fixture
def bob(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


@pytest.fixture
def admin() -> Caller:
    return by_token(an_actor(None, Role.PLATFORM_ADMIN).user)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, company: Company, admin: Caller) -> Iterator[ToyCluster]:
    """The line in the registry, without which there is no such kind, and two nodes that answer."""
    assert added(admin).json()["errors"][0]["detail"] == '"toy" is not a valid choice.'
    monkeypatch.setitem(KINDS, TOY.name, TOY)
    CLUSTERS["lab"] = cluster = ToyCluster(pool=company.pool.name, node_count=2)
    yield cluster
    del CLUSTERS["lab"]


def added(admin: Caller, **changes: Any) -> Any:
    return admin.post("clusters", {"name": "lab", "kind": "toy", "options": OPTIONS, **changes})


def submitted(bob: Actor, now: Any) -> Job:
    body = {"team": "ai-company/research/nlp", "script": "exit 0", "gpus_per_node": 3}
    with transaction.atomic():
        return submit_job_here(read_job_request(body), actor=bob, now=now)


def test_it_is_added_placed_on_and_observed(toy: ToyCluster, admin: Caller, bob: Actor) -> None:
    """Planted: the choices of the request fixed when the module is loaded."""
    answer = added(admin)
    assert (answer.status_code, answer.json()["options"]) == (201, OPTIONS)
    loop = LoopOn(Cluster.objects.get(name="lab"))

    job = submitted(bob, loop.clock.now())
    loop.until(job, "running")
    attempt = Attempt.objects.get(job=job)
    assert (attempt.cluster.name, attempt.mgpu, [*toy.runs]) == ("lab", 3_000, [attempt.key])

    toy.end(attempt.key)
    loop.until(job, "succeeded", "failed")
    assert job.state == "succeeded"
    shown = {one["name"]: one for one in admin.get("clusters").json()["items"]}["lab"]
    page = admin.get(f"clusters/{loop.cluster.pk}").json()
    for lab in (shown, page):
        assert (lab["kind"], lab["kind_label"], lab["state"]) == ("toy", "Toy cluster", "reachable")
        assert (lab["words"]["variant"], lab["words"]["account"]) == ("", "Account")
        assert (lab["has_users"], lab["keeps_limits"], lab["runs_images"]) == (False, False, False)
        assert lab["nodes_refusal"] == "nodes of clusters of kind toy cannot be drained from here"
        assert (lab["pools"][0]["nodes"], lab["pools"][0]["healthy_mgpu"]) == (2, 8_000)


def test_a_cancelled_job_is_stopped_there(toy: ToyCluster, admin: Caller, bob: Actor) -> None:
    """Planted: a connector that does not stop."""
    added(admin)
    loop = LoopOn(Cluster.objects.get(name="lab"))
    job = submitted(bob, loop.clock.now())
    loop.until(job, "running")
    assert by_token(bob.user).post(f"jobs/{job.pk}/cancel", {}).status_code in (200, 202)
    loop.until(job, "cancelled")


@pytest.mark.parametrize(
    ("changes", "pointer", "detail"),
    [
        ({"options": {}}, "/options/address", "option address is needed: the name of the cluster"),
        (
            {"options": {**OPTIONS, "gpus_per_node": 17}},
            "/options/gpus_per_node",
            "option gpus_per_node must be a whole number from 1 to 16",
        ),
        (
            {"options": {**OPTIONS, "a/b": 1}},
            "/options/a~1b",
            "unknown options of a toy cluster: a/b",
        ),
        ({"kind": "toys"}, "/kind", '"toys" is not a valid choice.'),
    ],
)
def test_it_refuses_bad_options_in_its_own_words(
    changes: dict[str, Any], pointer: str, detail: str, toy: ToyCluster, admin: Caller
) -> None:
    answer = added(admin, **changes)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, pointer)
    assert answer.json()["errors"][0]["detail"] == detail


def test_all_bad_options_are_named_at_once(toy: ToyCluster, admin: Caller) -> None:
    """Planted: the first problem alone."""
    answer = added(admin, options={"address": "", "gpus_per_node": 0})
    assert [error["pointer"] for error in answer.json()["errors"]] == [
        "/options/address",
        "/options/gpus_per_node",
    ]


def test_its_form_follows_from_the_declaration_of_its_options(
    toy: ToyCluster, admin: Caller
) -> None:
    """Planted: the kinds of the endpoint fixed when the module is loaded; a default left out."""
    kinds = admin.get("cluster-kinds").json()["items"]
    assert [(kind["name"], kind["title"]) for kind in kinds] == [
        ("kubernetes", "Kubernetes"),
        ("local", "Local"),
        ("slurm", "Slurm"),
        ("toy", "Toy cluster"),
    ]
    assert kinds[-1]["options_schema"] == {
        "type": "object",
        "properties": {
            "address": {
                "title": "Address",
                "type": "string",
                "description": "The name of the cluster.",
                "examples": ["lab"],
            },
            "gpus_per_node": {
                "title": "GPUs per node",
                "type": "integer",
                "minimum": 1,
                "maximum": 16,
                "default": 8,
            },
        },
        "additionalProperties": False,
        "required": ["address"],
    }


def test_two_toys_at_one_address_are_one_cluster(toy: ToyCluster, admin: Caller) -> None:
    assert added(admin).status_code == 201
    second = added(admin, name="again")
    assert second.status_code == 409
    assert "lab is the cluster at lab already" in second.json()["detail"]


def test_names_of_kinds_fit_into_the_database() -> None:
    longest = Cluster._meta.get_field("kind").max_length
    assert longest == 16
    assert all(len(kind.name) <= longest and kind.name == name for name, kind in KINDS.items())
