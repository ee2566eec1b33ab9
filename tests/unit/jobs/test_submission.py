"""What submission checks, chooses and stores."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.job_builders import a_body, a_job
from builders.portal_builders import (
    NOW,
    Company,
    a_cluster,
    a_cluster_node,
    a_company,
    a_grant,
    a_pool,
    a_priority_class,
    a_quota,
    a_team,
    a_user,
    an_actor,
)
from clusters.models import Cluster
from jobs.errors import NeverFits, TooManyOpenJobs
from jobs.models import Job, JobEvent
from jobs.submission import submission
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from primitives.errors import Forbidden, InvalidRequest, NotFound
from quotas.models import Quota
from tenants.access import Actor, actor_of
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def bob(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


def submit(actor: Actor, **changes: Any) -> Job:
    with transaction.atomic():
        return submit_job_here(read_job_request(a_body(**changes)), actor=actor, now=NOW)


def resolved_clusters(actor: Actor, **changes: Any) -> frozenset[str] | None:
    return submission.resolve(read_job_request(a_body(**changes)), actor=actor).clusters


def test_a_job_is_queued_with_event_and_audit(company: Company, bob: Actor) -> None:
    job = submit(bob, name="bert", environment={"A": "1"}, time_limit_s=60)
    job.refresh_from_db()
    assert (job.state, job.submitted_at, job.attempt_number) == ("queued", NOW, 0)
    assert (job.organization_id, job.team_id) == (company.organization.pk, company.nlp.pk)
    assert (job.user_id, job.pool_id) == (bob.user.pk, company.pool.pk)
    assert (job.mgpu_per_node, job.node_count, job.time_limit_s) == (1_000, 1, 60)
    assert (job.name, job.environment, job.notes) == ("bert", {"A": "1"}, [])
    assert (job.priority_class.name, job.type, job.cluster) == ("normal", "training", None)
    assert list(JobEvent.objects.filter(job=job).values_list("at", "event", "detail")) == [
        (NOW, "submitted", {"by": "bob"})
    ]
    event = AuditEvent.objects.get(subject_id=str(job.pk))
    assert (event.action, event.actor, event.node_path) == (
        "job_submitted",
        "bob@ai-company",
        "ai-company/research/nlp/",
    )
    assert event.detail == {"name": "bert", "pool": "h100", "mgpu": 1_000}


def test_a_held_job(bob: Actor) -> None:
    assert submit(bob, held=True).state == "held"


@pytest.mark.parametrize("team", ["ai-company/research/none", "rival/lab", "rival/nothing", "x"])
def test_foreign_and_absent_teams_look_the_same(bob: Actor, team: str) -> None:
    rival = a_company("rival")
    a_team(rival.organization, "lab")
    with pytest.raises(NotFound) as refusal:
        submit(bob, team=team)
    assert refusal.value.detail.startswith(f"There is no {team!r} that you can see.")
    assert "rival" not in refusal.value.detail.partition("see.")[2]
    assert [error.pointer for error in refusal.value.errors] == ["/team"]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("path", "what"),
    [("ai-company/research", "a department"), ("ai-company", "an organization")],
)
def test_a_department_is_no_team(company: Company, path: str, what: str) -> None:
    alice = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    with pytest.raises(InvalidRequest, match=f"is {what}; name one of its teams"):
        submit(alice, team=path)


def test_a_team_without_the_right_to_submit(bob: Actor) -> None:
    with pytest.raises(Forbidden):
        submit(bob, team="ai-company/research/vision")


def test_a_token_without_the_scope_cannot_submit(bob: Actor) -> None:
    with pytest.raises(Forbidden):
        submit(actor_of(bob.user, ["read"]))
    assert submit(actor_of(bob.user, ["jobs"])).state == "queued"


def test_unknown_pool_class_and_cluster(company: Company, bob: Actor) -> None:
    a_priority_class(company.organization, "high", order=100)
    a_pool("secret")
    a_cluster("other")
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, pool="secret", priority_class="urgent")
    assert [(error.pointer, error.detail) for error in refusal.value.errors] == [
        ("/pool", "there is no pool 'secret' for you; you have h100"),
        ("/priority_class", "there is no priority class 'urgent'; there are high, normal"),
    ]
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, cluster="other")
    assert [error.detail for error in refusal.value.errors] == [
        "there is no cluster 'other' with h100"
    ]


def test_a_class_of_another_organization_is_unknown(bob: Actor) -> None:
    a_priority_class(a_company("rival").organization, "theirs")
    with pytest.raises(InvalidRequest, match="there is no priority class 'theirs'"):
        submit(bob, priority_class="theirs")


def test_the_pool_must_be_named_when_there_are_several(company: Company, bob: Actor) -> None:
    a100 = a_pool("a100")
    a_quota(company.organization, a100, 8)
    a_cluster_node(company.cluster, a100)
    with pytest.raises(InvalidRequest, match="is required, because there are several: a100, h100"):
        submit(bob)
    assert submit(bob, pool="a100").pool == a100


def test_an_organization_without_quota_has_no_pool(company: Company) -> None:
    bob = an_actor(company.nlp, Role.RESEARCHER)
    Quota.objects.all().delete()
    with pytest.raises(InvalidRequest, match="ai-company has no quota in any pool"):
        submit(bob)


def test_hints_of_the_text_count_when_they_name_something(company: Company, bob: Actor) -> None:
    a_priority_class(company.organization, "high", order=100)
    text = "#SBATCH -p h100\n#SBATCH -q high\n#SBATCH -G 1\ntrue\n"
    job = submit(bob, gpus=..., script=..., sbatch=text)
    assert (job.pool, job.priority_class.name, job.script) == (company.pool, "high", text)
    assert [(note["line"], note["verdict"], note["detail"]) for note in job.notes] == [
        (1, "understood", "pool = h100"),
        (2, "understood", "priority_class = high"),
        (3, "understood", "gpus = 1"),
    ]


def test_hints_that_name_nothing_are_ignored_with_a_note(bob: Actor) -> None:
    """Planted: notes of one line that are told apart by their texts."""
    text = "#SBATCH -p batch -q express\n#SBATCH -G 1\ntrue\n"
    job = submit(bob, gpus=..., script=..., sbatch=text)
    assert job.priority_class.name == "normal"
    assert [(note["line"], note["verdict"], note["detail"]) for note in job.notes] == [
        (1, "ignored", "there is no pool of that name; you have h100"),
        (1, "ignored", "there is no priority class of that name; there are normal"),
        (2, "understood", "gpus = 1"),
    ]


WHOLE_NODES = "#!/bin/sh\n#SBATCH -N 2\n#SBATCH --exclusive\ntrue\n"


def test_whole_nodes_have_all_their_gpus(bob: Actor) -> None:
    """Planted: one GPU for a whole node."""
    job = submit(bob, gpus=..., script=..., sbatch=WHOLE_NODES)
    assert (job.mgpu_per_node, job.node_count) == (8_000, 2)
    assert [(note["line"], note["verdict"], note["detail"]) for note in job.notes] == [
        (2, "understood", "nodes = 2"),
        (3, "understood", "gpus_per_node = 8: whole nodes of h100"),
    ]


def test_the_body_says_how_many_gpus_in_place_of_whole_nodes(bob: Actor) -> None:
    job = submit(bob, gpus=..., gpus_per_node=4, script=..., sbatch=WHOLE_NODES)
    assert (job.mgpu_per_node, job.node_count) == (4_000, 1)
    assert [note["verdict"] for note in job.notes] == ["ignored", "ignored"]


@pytest.mark.parametrize("kind", ["k80", "1g.10gb", "a100", "nvidia_h100_80gb_hbm3"])
def test_a_type_of_gpu_that_is_missing_is_refused_by_name(bob: Actor, kind: str) -> None:
    """Planted: a missing type that is ignored with a note."""
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, gpus=..., script=..., sbatch=f"#SBATCH --gres=gpu:{kind}:2\ntrue\n")
    assert [error.detail for error in refusal.value.errors] == [
        f"line 1: #SBATCH --gres=gpu:{kind}:2: gpus_per_node = 2, of type {kind}; there is no GPU "
        f"of type '{kind}' for you; you have h100. Write one of them, or leave the type out."
    ]
    assert not Job.objects.exists()


@pytest.mark.parametrize("own", [{"gpus": 1}, {"gpus_per_node": 1}])
def test_a_missing_type_is_refused_beside_the_gpus_of_the_request(
    bob: Actor, own: dict[str, object]
) -> None:
    """Planted: a note that is found by what it said at first."""
    text = "#!/bin/sh\r\n#SBATCH --gpus-per-node=nosuch:8\r\ntrue\r\n"
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, **({"gpus": ..., "script": ..., "sbatch": text} | own))
    assert [error.detail for error in refusal.value.errors] == [
        "line 2: #SBATCH --gpus-per-node=nosuch:8: the request itself gives the number, of type "
        "nosuch; there is no GPU of type 'nosuch' for you; you have h100. Write one of them, or "
        "leave the type out."
    ]


def test_the_type_counts_beside_the_gpus_of_the_request(bob: Actor) -> None:
    """Planted: a note that says `ignored` of the line that gives the pool."""
    job = submit(bob, gpus=1, script=..., sbatch="#SBATCH --gpus-per-node=h100:8\ntrue\n")
    assert [(note["verdict"], note["detail"]) for note in job.notes] == [
        ("understood", "the request itself gives the number, of type h100; pool = h100")
    ]


def test_a_refusal_stays_when_its_line_names_the_pool(bob: Actor) -> None:
    """Planted: the note on the pool in place of the refusal."""
    text = "#SBATCH -G h100:16\n#SBATCH --gpus-per-node=h100:8 -N 4\ntrue\n"
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, gpus=..., script=..., sbatch=text)
    assert "16 GPUs are not 8 on each of 4 nodes; keep one." in refusal.value.errors[0].detail


def test_a_missing_type_is_refused_beside_other_other_errors(company: Company, bob: Actor) -> None:
    a100 = a_pool("a100")
    a_quota(company.organization, a100, 8)
    a_cluster_node(company.cluster, a100)
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, gpus=..., script=..., sbatch="#SBATCH -G k80:1 -p batch\ntrue\n")
    assert [error.pointer for error in refusal.value.errors] == ["/pool", "/sbatch"]


def test_the_body_chooses_the_pool_in_place_of_a_missing_type(bob: Actor) -> None:
    job = submit(bob, script=..., gpus=..., sbatch="#SBATCH -G k80:1\ntrue\n", pool="h100")
    assert job.pool.name == "h100"


@pytest.mark.parametrize("kind", ["H100", "h100"])
def test_the_case_of_a_type_does_not_matter(bob: Actor, kind: str) -> None:
    """Planted: names that are compared as they are."""
    job = submit(bob, gpus=..., script=..., sbatch=f"#SBATCH --gres=gpu:{kind}:2\ntrue\n")
    assert job.pool.name == "h100"
    assert [note["detail"] for note in job.notes] == [
        f"gpus_per_node = 2, of type {kind}; pool = h100"
    ]


def test_a_refused_line_refuses_the_job(bob: Actor) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, script=..., sbatch="#SBATCH -J x\n#SBATCH --begin=soon\ntrue\n")
    assert [error.pointer for error in refusal.value.errors] == ["/sbatch"]
    assert [note["verdict"] for note in refusal.value.data["notes"]] == ["understood", "refused"]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({"gpus": 8}, (8_000, 1)),
        ({"gpus": 16}, (8_000, 2)),
        ({"gpus": 12}, (4_000, 3)),
        ({"gpus": 9}, (3_000, 3)),
        ({"gpus": 32}, (8_000, 4)),
        ({"gpus": 8, "nodes": 4}, (2_000, 4)),
        ({"gpus": ..., "gpus_per_node": 4, "nodes": 3}, (4_000, 3)),
        ({"gpus": ..., "gpus_per_node": 2}, (2_000, 1)),
    ],
)
def test_gpus_are_laid_out_on_equal_nodes(
    bob: Actor, changes: dict[str, Any], shape: tuple[int, int]
) -> None:
    job = submit(bob, **changes)
    assert (job.mgpu_per_node, job.node_count) == shape
    assert job.type == ("distributed" if shape[1] > 1 else "training")


@pytest.mark.parametrize(
    ("gpus", "taken"),
    [(16, "2 nodes with 8 GPUs each"), (9, "3 nodes with 3 GPUs each")],
)
def test_whoever_names_a_total_is_told_how_it_is_shared_out(
    bob: Actor, gpus: int, taken: str
) -> None:
    """Nobody is told who chose the nodes, or whom one node serves."""
    (note,) = submit(bob, gpus=gpus).notes
    assert note == {
        "line": 0,
        "text": "",
        "verdict": "understood",
        "detail": f"No node has {gpus} GPUs, so this job takes {taken}. To choose the layout, ask "
        "for nodes and GPUs per node instead.",
    }
    assert submit(bob, gpus=8).notes == []
    assert submit(bob, gpus=16, nodes=2).notes == []
    assert submit(bob, gpus=..., gpus_per_node=8, nodes=2).notes == []


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        # The fleet is four nodes with eight GPUs; everything of it may be borrowed.
        (
            {"gpus": 40},
            {"need_mgpu": 40_000, "mgpu_per_node": 8_000, "nodes_needed": 5, "nodes_fitting": 4},
        ),
        (
            {"gpus": 13},
            {"need_mgpu": 13_000, "mgpu_per_node": 1_000, "nodes_needed": 13, "nodes_fitting": 4},
        ),
        (
            {"gpus": ..., "gpus_per_node": 9},
            {"need_mgpu": 9_000, "mgpu_per_node": 9_000, "nodes_needed": 1, "nodes_fitting": 0},
        ),
        (
            {"gpus": 9_999_999},
            {"need_mgpu": 9_999_999_000, "nodes_needed": 1, "nodes_fitting": 0},
        ),
    ],
)
def test_more_than_the_fleet_has_never_fits(
    bob: Actor, changes: dict[str, Any], numbers: dict[str, int]
) -> None:
    with pytest.raises(NeverFits) as refusal:
        submit(bob, **changes)
    told = refusal.value.data["numbers"]
    assert {name: told[name] for name in numbers} == numbers
    assert told["largest_node_mgpu"] == 8_000
    assert [error.code for error in refusal.value.errors] == ["never_fits"]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("limits", "most_gpus"),
    [
        ({}, 32),
        ({"ai-company/research/nlp/": {"borrow_limit_mgpu": 0}}, 8),
        ({"ai-company/research/nlp/": {"borrow_limit_mgpu": 4_000}}, 12),
        ({"ai-company/research/": {"borrow_limit_mgpu": 0}}, 16),
        ({"ai-company/production/": {"lend_limit_mgpu": 6_000}}, 22),
        ({"ai-company/production/inference/": {"lend_limit_mgpu": 0}}, 16),
        ({"ai-company/research/vision/": {"lend_limit_mgpu": 2_000}}, 26),
    ],
)
def test_more_than_quota_could_ever_give_never_fits(
    company: Company, bob: Actor, limits: dict[str, dict[str, int]], most_gpus: int
) -> None:
    company.cluster.nodes.all().delete()
    a_cluster_node(company.cluster, company.pool, capacity_mgpu=32_000)
    for path, values in limits.items():
        Quota.objects.filter(node__path=path).update(**values)
    assert submit(bob, gpus=most_gpus).mgpu == most_gpus * 1_000
    with pytest.raises(NeverFits) as refusal:
        submit(bob, gpus=..., gpus_per_node=most_gpus + 1)
    assert refusal.value.data["numbers"]["could_ever_mgpu"] == most_gpus * 1_000


def test_the_refusal_says_what_quota_would_allow(company: Company, bob: Actor) -> None:
    Quota.objects.filter(node=company.nlp).update(borrow_limit_mgpu=4_000)
    with pytest.raises(NeverFits) as refusal:
        submit(bob, gpus=16)
    assert refusal.value.detail == (
        "16 GPUs of h100 can never run for ai-company/research/nlp: its quota, with all that it "
        "may borrow, is at most 12 GPUs even when everything is idle. Ask for at most that, or "
        "have the quota raised."
    )
    assert refusal.value.data["numbers"]["could_ever_mgpu"] == 12_000


def test_the_refusal_says_what_the_fleet_would_allow(bob: Actor) -> None:
    with pytest.raises(NeverFits) as refusal:
        submit(bob, gpus=..., gpus_per_node=9)
    assert refusal.value.detail == (
        "9 GPUs of h100 can never run: no cluster has 1 node with 9 GPUs each. The largest "
        "node has 8 GPUs."
    )


@pytest.mark.parametrize("gpus", [33, 40, 100_000])
def test_more_than_all_of_the_pool_is_said_so(company: Company, bob: Actor, gpus: int) -> None:
    company.cluster.nodes.filter(pk=company.cluster.nodes.first().pk).update(is_schedulable=False)
    with pytest.raises(NeverFits) as refusal:
        submit(bob, gpus=gpus)
    assert refusal.value.detail == (
        f"{gpus:,} GPUs of h100 can never run: the pool h100 has 32 GPUs in all; {gpus:,} were "
        "asked for."
    )
    submit(bob, gpus=32)


def test_more_than_the_cap_of_the_class_never_fits(company: Company, bob: Actor) -> None:
    low = a_priority_class(company.organization, "low", order=1)
    low.team_cap_mgpu = 2_000
    low.save()
    assert submit(bob, gpus=2, priority_class="low").mgpu == 2_000
    with pytest.raises(NeverFits, match="it lets a team have at most 2 GPUs at once"):
        submit(bob, gpus=3, priority_class="low")


def test_a_pinned_cluster_must_hold_it_alone(company: Company, bob: Actor) -> None:
    small = a_cluster("small")
    a_cluster_node(small, company.pool, capacity_mgpu=4_000)
    job = submit(bob, gpus=4, cluster="small")
    assert (job.cluster, job.mgpu_per_node, job.node_count) == (small, 4_000, 1)
    with pytest.raises(NeverFits, match="small does not have 2 nodes with 4 GPUs each"):
        submit(bob, gpus=8, cluster="small")


def test_drained_nodes_may_come_back(company: Company, bob: Actor) -> None:
    company.cluster.nodes.update(is_schedulable=False, state="drained")
    assert submit(bob, gpus=..., gpus_per_node=8, nodes=4).node_count == 4


def test_a_pool_without_any_node_yet_takes_jobs(company: Company, bob: Actor) -> None:
    company.cluster.nodes.all().delete()
    job = submit(bob, gpus=16)
    assert (job.mgpu_per_node, job.node_count) == (16_000, 1)


def test_too_many_open_jobs(company: Company, bob: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "OPEN_JOBS_PER_USER_MAX", 2)
    monkeypatch.setattr(submission, "OPEN_JOBS_PER_ORGANIZATION_MAX", 3)
    a_job(company, bob.user, state="succeeded")
    submit(bob)
    submit(bob)
    with pytest.raises(TooManyOpenJobs, match="You have 2 jobs that have not ended; 2 are allowed"):
        submit(bob)
    dana = a_user(company.organization, "dana")
    a_grant(dana, Role.RESEARCHER, company.nlp)
    submit(actor_of(dana))
    with pytest.raises(TooManyOpenJobs, match="Your organization has 3 jobs"):
        submit(actor_of(dana))
    a_company("rival")
    eve = an_actor(a_team(a_company("third").organization, "lab"), Role.RESEARCHER)
    assert submit(eve, team="third/lab").state == "queued"


def give_features(company: Company, *features: list[str]) -> None:
    """Features of the company's nodes in order; the rest have none."""
    for node, names in zip(company.cluster.nodes.order_by("name"), features, strict=False):
        node.features = names
        node.save()


def test_a_job_that_asks_for_features(company: Company, bob: Actor) -> None:
    give_features(company, ["ib", "nvlink"], ["nvlink"], ["nvlink"])
    job = submit(bob, features=["nvlink", "ib"])
    job.refresh_from_db()
    assert (job.features, job.image) == (["ib", "nvlink"], None)
    assert submit(bob, gpus=24, features=["nvlink"]).node_count == 3


@pytest.mark.parametrize(
    ("changes", "told", "having"),
    [
        (
            {"features": ["ib", "gold"]},
            "1 GPU of h100 can never run: no node of pool h100 has the features gold, ib together.",
            0,
        ),
        (
            {"features": ["gold"], "cluster": "local"},
            "1 GPU of h100 can never run: no node of pool h100 on local has the feature gold.",
            0,
        ),
        (
            {"features": ["ib"], "gpus": 16},
            "16 GPUs of h100 can never run: of pool h100 at most 1 node of one cluster has the "
            "feature ib, and it needs 2.",
            1,
        ),
        (
            {"features": ["nvlink"], "gpus": 24, "nodes": 3},
            "24 GPUs of h100 can never run: of pool h100 at most 2 nodes of one cluster have the "
            "feature nvlink, and it needs 3.",
            2,
        ),
    ],
)
def test_features_that_too_few_nodes_have_never_fit(
    company: Company, bob: Actor, changes: dict[str, Any], told: str, having: int
) -> None:
    give_features(company, ["ib", "nvlink"], ["nvlink"], ["silver"])
    with pytest.raises(NeverFits) as refusal:
        submit(bob, **changes)
    assert refusal.value.detail == told
    assert [error.pointer for error in refusal.value.errors] == ["/features"]
    assert refusal.value.data["numbers"]["nodes_with_features"] == having
    assert not Job.objects.exists()


def test_nodes_that_have_it_but_are_too_small_never_fit(company: Company, bob: Actor) -> None:
    small = a_cluster_node(company.cluster, company.pool, capacity_mgpu=4_000)
    small.features = ["silver"]
    small.save()
    with pytest.raises(NeverFits) as refusal:
        submit(bob, gpus=..., gpus_per_node=8, features=["silver"])
    assert refusal.value.detail == (
        "8 GPUs of h100 can never run: no cluster has 1 node with the feature silver and 8 GPUs "
        "each. The largest node has 4 GPUs."
    )
    assert submit(bob, gpus=4, features=["silver"]).mgpu == 4_000


def test_a_feature_of_every_node_excludes_none(company: Company, bob: Actor) -> None:
    give_features(company, *[["h100"]] * 4)
    assert submit(bob, gpus=32, features=["h100"]).node_count == 4
    with pytest.raises(NeverFits) as refusal:
        submit(bob, gpus=40, features=["h100"])
    assert "nodes_with_features" not in refusal.value.data["numbers"]


def test_drained_nodes_may_come_back_with_their_features(company: Company, bob: Actor) -> None:
    give_features(company, ["ib"], ["ib"])
    company.cluster.nodes.filter(features=["ib"]).update(is_schedulable=False)
    assert submit(bob, gpus=..., gpus_per_node=8, nodes=2, features=["ib"]).node_count == 2


def test_an_image_is_refused_where_no_cluster_runs_any(company: Company, bob: Actor) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, image="x:1")
    (error,) = refusal.value.errors
    assert (error.pointer, error.code, error.detail) == (
        "/image",
        "unavailable",
        "no cluster with h100 runs container images; leave the image out and let the script bring "
        "its software",
    )
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, image="x:1", cluster="local")
    assert [error.detail for error in refusal.value.errors] == [
        "local does not run container images; leave the image out and let the script bring its "
        "software, or choose another cluster"
    ]
    assert not Job.objects.exists()


def test_an_image_of_the_text_is_refused_at_its_line(company: Company, bob: Actor) -> None:
    text = "#SBATCH --gpus=8\n#SBATCH --container-image=x:1\n#SBATCH --begin=soon\ntrue\n"
    verdicts = [
        (1, "understood", "gpus = 8"),
        (
            2,
            "refused",
            "no cluster with h100 runs container images; leave the image out and let the script "
            "bring its software.",
        ),
        (
            3,
            "refused",
            "'soon' is no time to begin; write now+2hours, 16:00, tomorrow or 2027-01-20T08:00:00.",
        ),
    ]
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, gpus=..., script=..., sbatch=text)
    notes = refusal.value.data["notes"]
    assert [(note["line"], note["verdict"], note["detail"]) for note in notes] == verdicts
    assert [(error.pointer, error.code) for error in refusal.value.errors] == [
        ("/sbatch", "refused"),
        ("/sbatch", "refused"),
    ]
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, gpus=..., script=..., sbatch=text, image="y:1")
    assert [error.pointer for error in refusal.value.errors] == ["/image", "/sbatch"]
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, gpus=..., script=..., sbatch=text, priority_class="none")
    assert [error.pointer for error in refusal.value.errors] == [
        "/priority_class",
        "/sbatch",
        "/sbatch",
    ]
    notes = refusal.value.data["notes"]
    assert [(note["line"], note["verdict"], note["detail"]) for note in notes] == verdicts
    assert not Job.objects.exists()


def test_an_image_confines_a_job_to_clusters_that_run_them(company: Company, bob: Actor) -> None:
    hpc = a_cluster("hpc", kind="slurm")
    hpc.options = {"containers": "pyxis"}
    hpc.save()
    with pytest.raises(InvalidRequest):
        submit(bob, image="x:1")
    a_cluster_node(hpc, company.pool)
    job = submit(bob, image="x:1", gpus=8)
    job.refresh_from_db()
    assert (job.image, job.mgpu_per_node) == ("x:1", 8_000)
    with pytest.raises(NeverFits) as refusal:
        submit(bob, image="x:1", gpus=16)
    assert refusal.value.detail == (
        "16 GPUs of h100 can never run: no cluster that runs images has 2 nodes with 8 GPUs each. "
        "The largest node has 8 GPUs, and at most 1 node of one cluster can give 8."
    )
    with pytest.raises(NeverFits) as refusal:
        submit(bob, image="x:1", features=["ib"])
    assert "no node of pool h100 on clusters that run container images has" in refusal.value.detail


def test_what_no_cluster_can_cut_is_refused_and_does_not_wait(company: Company, bob: Actor) -> None:
    """Mutant: half a GPU on Slurm waited for ever, for a cluster with such GPUs."""
    hpc = a_cluster("hpc", kind="slurm")
    a_cluster_node(hpc, company.pool)
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, gpus=0.5, cluster="hpc")
    (error,) = refusal.value.errors
    assert (error.pointer, error.code, error.detail) == (
        "/gpus",
        "unavailable",
        "hpc does not give a node of a job 0.5 GPUs; ask for a multiple of 1 on each node, or "
        "choose another cluster",
    )
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, gpus=..., gpus_per_node=1.5, nodes=2, cluster="hpc")
    assert [error.pointer for error in refusal.value.errors] == ["/gpus_per_node"]
    assert submit(bob, gpus=2, cluster="hpc").mgpu_per_node == 2_000
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, gpus=0.5)
    assert [error.detail for error in refusal.value.errors] == [
        "no cluster with h100 gives a node of a job 0.5 GPUs; ask for a multiple of 1 on each node"
    ]
    # The cluster beside it can, once its GPUs are shared.
    company.cluster.options = {"nodes": {"shared": True}}
    company.cluster.save()
    assert submit(bob, gpus=0.5).mgpu_per_node == 500


def test_more_time_than_any_cluster_allows_is_refused_and_does_not_wait(
    company: Company, bob: Actor
) -> None:
    """Planted: Slurm's partition refused it an hour later, or held it in its queue for ever."""
    company.cluster.time_limits = {"h100": 3600}
    company.cluster.save()
    assert submit(bob, time_limit_s=3600).time_limit_s == 3600
    assert submit(bob).time_limit_s is None
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, time_limit_s=3660)
    (error,) = refusal.value.errors
    assert (error.pointer, error.code, error.detail) == (
        "/time_limit_s",
        "unavailable",
        "no cluster with h100 lets a job run for 1 h 1 min; the longest time limit there is 1 h",
    )
    other = a_cluster("other")
    a_cluster_node(other, company.pool, capacity_mgpu=4_000)
    assert resolved_clusters(bob, gpus=2, time_limit_s=3660) == {str(other.pk)}
    # What only the others have room for is said at once as well.
    with pytest.raises(NeverFits):
        submit(bob, gpus=..., gpus_per_node=8, time_limit_s=3660)
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, time_limit_s=3660, cluster=company.cluster.name)
    assert [one.detail for one in refusal.value.errors] == [
        "local does not let a job run for 1 h 1 min; the longest time limit there is 1 h"
    ]


def test_images_of_a_kubernetes_cluster_are_answered_at_once(company: Company, bob: Actor) -> None:
    kube = a_cluster("kube", kind="kubernetes")
    kube.options = {
        "in_cluster": True,
        "allowed_registries": ["docker.io/pytorch"],
        "pools": {"h100": {}},
    }
    kube.save()
    a_cluster_node(kube, company.pool)

    def refused(**values: Any) -> str:
        with pytest.raises(InvalidRequest) as refusal:
            submit(bob, **values)
        (error,) = refusal.value.errors
        assert (error.pointer, error.code) == ("/image", "unavailable")
        return error.detail

    assert refused(image="ghcr.io/acme/train:1") == (
        "kube: images of ghcr.io/acme/train may not be run here; use one of docker.io/pytorch"
    )
    assert "is no container image: write registry/path:tag" in refused(image="http://x:1")
    assert refused(cluster="kube") == (
        "kube: jobs run in container images there, and pool h100 has none of its own: name one"
    )
    assert resolved_clusters(bob, image="pytorch/pytorch:2.4.0") == {str(kube.pk)}
    local = Cluster.objects.get(name="local")
    assert resolved_clusters(bob) == {str(local.pk)}, "only there a job runs without an image"
    kube.options["pools"]["h100"]["image"] = "ghcr.io/acme/base:1"
    kube.save()
    assert resolved_clusters(bob) is None
    assert resolved_clusters(bob, cluster="kube") == {str(kube.pk)}


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"features": ["f"] * 17}, "job_asks_for_16_features_at_most"),
        ({"image": ""}, "job_image_is_one_word"),
        ({"image": "a b"}, "job_image_is_one_word"),
        ({"image": "a\n"}, "job_image_is_one_word"),
    ],
)
def test_the_database_keeps_features_and_images(
    company: Company, bob: Actor, values: dict[str, Any], name: str
) -> None:
    job = submit(bob)
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(**values)
