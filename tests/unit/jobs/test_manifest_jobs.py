"""Jobs that are Kubernetes manifests, from the request to what their cluster is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.api_callers import by_token
from builders.connector_builders import change_kind
from builders.job_builders import an_attempt
from builders.kubernetes_builders import BLOCK, RACK
from builders.portal_builders import Company, a_cluster_node, a_company, a_pool, a_quota
from clusters.models import Cluster, PoolAlias
from connectors.kinds import ManifestTrial
from jobs.arbitration.snapshots import load_snapshot
from jobs.execution.workloads import workload_of
from jobs.models import Job
from jobs.submission.requests import read_job_request
from primitives.clock import SystemClock
from primitives.errors import InvalidRequest
from tenants.models import User

RECORDINGS = Path(__file__).parents[2] / "recordings" / "manifests"
TEAM = "ai-company/research/nlp"
POOL = {
    "node_selector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    "topology_name": "fabric",
    "topology_levels": [BLOCK, RACK],
}


def recorded(name: str) -> str:
    return (RECORDINGS / f"{name}.yaml").read_text()


def a_body(name: str = "job", **changes: Any) -> dict[str, Any]:
    return {"team": TEAM, "manifest": recorded(name), **changes}


def errors_of(body: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(body)
    return [(error.pointer, error.detail) for error in refusal.value.errors]


def test_a_manifest_gives_name_size_image_and_limit() -> None:
    """Planted: the most Pods of an elastic Job as its least, too."""
    text = recorded("elastic-job").replace("spec:\n", "spec:\n  activeDeadlineSeconds: 600\n", 1)
    request = read_job_request({"team": TEAM, "manifest": text, "time_limit": "1h"})
    assert (request.name, request.launch, request.script) == ("partial", "manifest", text)
    size = request.size
    assert (size.mgpu_per_node, size.node_count, size.node_count_min) == (1_000, 20, 5)
    assert (request.image, request.time_limit_s) == ("registry.example.com/train:1", 600)
    assert [(note.line, note.verdict) for note in request.notes][-2:] == [
        (9, "understood"),
        (10, "understood"),
    ]


def test_what_is_in_the_manifest_is_not_given_beside_it() -> None:
    wrong = {"gpus": 4, "image": "x:1", "environment": {"A": "1"}, "script": "true"}
    assert errors_of(a_body(**wrong, array="0-3", launch="batch")) == [
        ("/array", "is of scripts; in a Job, completions runs a Pod for each index"),
        ("/environment", "is not given beside a manifest; change it in the manifest"),
        ("/gpus", "is not given beside a manifest; change it in the manifest"),
        ("/image", "is not given beside a manifest; change it in the manifest"),
        ("/launch", "is manifest for a manifest; leave it out"),
        ("/script", "give a script or a manifest, not both"),
    ]


def test_signals_are_of_scripts() -> None:
    """Planted: `notice_signal` alone; the two others were accepted, and did nothing."""
    detail = "is not given beside a manifest; change it in the manifest"
    signals = {"notice_signal": "USR1", "signal_ahead_s": 60, "signals_shell_only": True}
    assert errors_of(a_body(**signals)) == [(f"/{name}", detail) for name in sorted(signals)]


@pytest.mark.parametrize("limit", ["60", [1], True])
def test_a_limit_of_a_wrong_type_beside_the_manifests_own(limit: Any) -> None:
    """Planted: the shorter of a text and a number, which failed with a TypeError."""
    text = recorded("job").replace("spec:\n", "spec:\n  activeDeadlineSeconds: 600\n", 1)
    ((pointer, _),) = errors_of({"team": TEAM, "manifest": text, "time_limit_s": limit})
    assert pointer == "/time_limit_s"


def test_a_script_is_no_manifest() -> None:
    body = {"team": TEAM, "gpus": 1, "script": "true", "launch": "manifest"}
    assert errors_of(body) == [
        ("/launch", "is manifest only for a job that is given as a manifest")
    ]


def test_each_refusal_names_its_line_and_field() -> None:
    """Planted: the first of them only."""
    text = recorded("job").replace(
        "      restartPolicy: Never\n",
        "      restartPolicy: Never\n      hostNetwork: true\n      nodeName: gpu-1\n",
    )
    assert errors_of({"team": TEAM, "manifest": text}) == [
        (
            "/manifest",
            "line 14: document 1, Job: spec.template.spec.hostNetwork: the team's namespace "
            "allows no access to the node; leave it out",
        ),
        (
            "/manifest",
            "line 15: document 1, Job: spec.template.spec.nodeName: the scheduler chooses the "
            "node; write nodeSelector or leave it out",
        ),
    ]


def test_a_text_that_is_no_yaml_is_refused_with_its_line() -> None:
    assert errors_of({"team": TEAM, "manifest": "a: [1\nb: 2\n"}) == [
        (
            "/manifest",
            "line 2: manifest: is no YAML: did not find expected ',' or ']'",
        )
    ]


@pytest.fixture
def company(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Company:
    """A company with a cluster of Kubernetes that would refuse nothing."""
    settings.KUBECONFIGS = ("/etc/x",)
    change_kind(monkeypatch, "kubernetes", try_manifest=lambda *_: ManifestTrial())
    company = a_company()
    options = {"kubeconfig": "/etc/x", "pools": {"h100": POOL}}
    Cluster.objects.update(kind="kubernetes", options=options, seen_at=SystemClock().now())
    return company


def submit(user: User, body: dict[str, Any], *, is_plan: bool = False) -> Any:
    path = "jobs?dry_run=true" if is_plan else "jobs"
    return by_token(user).post(path, body)


def test_a_manifest_is_exported_as_it_was_given(company: Company, bob: User) -> None:
    """Planted: its size and image beside it, which a manifest says itself."""
    given = {"pool": "h100", "priority_class": "normal", "name": "mine", "time_limit_s": 3_600}
    body = {"team": TEAM, "manifest": recorded("job"), **given}
    job = submit(bob, body).json()
    exported = by_token(bob).get(f"jobs/{job['id']}/request").json()
    assert exported == {**body, "launch": "manifest"}
    assert submit(bob, exported).status_code == 201


def test_the_words_of_a_manifest_are_no_commands(company: Company, bob: User) -> None:
    """Planted: warnings of the paths and programs in it, which are those of its image."""
    text = recorded("job").replace(
        "  labels:", "  annotations: {note: (module load x; cd /data/x)}\n  labels:", 1
    )
    plan = submit(bob, {"team": TEAM, "manifest": text}, is_plan=True).json()
    assert plan["would_start_now"]
    assert [note for note in plan["notes"] if note["verdict"] == "warning"] == []


def test_a_plan_shows_size_start_and_notes(company: Company, bob: User) -> None:
    answer = submit(bob, a_body(), is_plan=True)
    assert answer.status_code == 200, answer.content
    plan = answer.json()
    job = plan["job"]
    assert (job["name"], job["launch"], job["mgpu_per_node"], job["node_count"]) == (
        "sample",
        "manifest",
        3_000,
        1,
    )
    assert (plan["pool"], plan["would_start_now"], plan["cluster"]) == ("h100", True, "local")
    assert [(note["text"], note["detail"]) for note in plan["notes"]] == [
        (
            "document 1, Job: metadata.labels.kueue.x-k8s.io/queue-name",
            "the job goes to its team's queue",
        ),
        (
            "document 1, Job: spec.completionMode",
            "Indexed, so that each Pod has a log of its own",
        ),
        (
            "",
            "3 Pods with 1 GPU each. The job is planned with 3 GPUs on each node, and its cluster "
            "places each Pod.",
        ),
    ]
    assert not Job.objects.exists()


def test_a_manifest_is_kept_as_it_was_given(company: Company, bob: User) -> None:
    answer = submit(bob, a_body(priority_class="normal", is_preemptible=True))
    assert answer.status_code == 201, answer.content
    job = Job.objects.get()
    assert (job.script, job.launch, job.mgpu_per_node, job.node_count) == (
        recorded("job"),
        "manifest",
        3_000,
        1,
    )
    assert (job.image, job.is_preemptible) == ("registry.example.com/train:1", True)
    detail = by_token(bob).get(f"jobs/{job.id}").json()
    assert (detail["launch"], detail["script"]) == ("manifest", job.script)
    attempt = an_attempt(job, cluster=company.cluster, nodes=("a",))
    workload = workload_of(attempt)
    assert (workload.is_manifest, workload.batch, workload.script) == (True, None, job.script)
    assert attempt.ranks == 3


def test_an_elastic_job_has_its_least_and_most(company: Company, bob: User) -> None:
    answer = submit(bob, a_body("elastic-job"))
    assert answer.status_code == 201, answer.content
    job = Job.objects.get()
    assert (job.mgpu_per_node, job.node_count_min, job.node_count) == (5_000, 1, 4)


def test_required_topology_becomes_a_level_of_the_portal(company: Company, bob: User) -> None:
    """Planted: the annotation only, of which the arbiter knew nothing."""
    options = {"kubeconfig": "/etc/x", "pools": {"h100": {**POOL, "topology_domains": None}}}
    Cluster.objects.update(options=options)
    answer = submit(bob, a_body("jobset-in-a-rack"), is_plan=True)
    assert answer.status_code == 200, answer.content
    assert answer.json()["job"]["required_topology"] == "rack"
    Cluster.objects.update(
        options={"kubeconfig": "/etc/x", "pools": {"h100": {"node_selector": {}}}}
    )
    assert submit(bob, a_body("jobset-in-a-rack")).json()["errors"] == [
        {
            "pointer": "/manifest",
            "detail": "no cluster runs it (local: pool h100 has no topology level "
            f"{RACK}; it has none)",
            "code": "unavailable",
        }
    ]


def test_parts_of_gpus_have_the_size_of_their_pool(company: Company, bob: User) -> None:
    """Planted: one unit of the resource as a whole GPU."""
    mig = {**POOL, "resource": "nvidia.com/mig-1g.10gb", "mgpu_per_unit": 125}
    Cluster.objects.update(options={"kubeconfig": "/etc/x", "pools": {"h100": mig}})
    plan = submit(bob, a_body("job-with-mig"), is_plan=True).json()
    assert plan["job"]["mgpu_per_node"] == 125
    assert submit(bob, a_body()).json()["errors"][0]["detail"] == (
        "no cluster runs it (local: pool h100 has nvidia.com/mig-1g.10gb, and the manifest asks "
        "for nvidia.com/gpu)"
    )


def test_claims_find_the_pool_of_their_device_class(company: Company, bob: User) -> None:
    dra = {**POOL, "device_class": "gpu.nvidia.com"}
    Cluster.objects.update(options={"kubeconfig": "/etc/x", "pools": {"h100": dra}})
    plan = submit(bob, a_body("job-with-claim"), is_plan=True).json()
    assert (plan["pool"], plan["job"]["mgpu_per_node"]) == ("h100", 1_000)


def test_only_clusters_that_run_manifests_remain(company: Company, bob: User) -> None:
    """Planted: a manifest on a local cluster, which would have run it as a script."""
    Cluster.objects.update(kind="local", options={})
    answer = submit(bob, a_body())
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["detail"] == (
        "no cluster runs it (local: it runs no Kubernetes manifests)"
    )


def test_a_named_cluster_that_runs_no_manifests_is_told_with_those_that_do(
    company: Company, bob: User
) -> None:
    """Against: "leave the image out and let the script bring its software"; no notes."""
    other = Cluster.objects.create(name="desk", kind="local", options={})
    a_cluster_node(other, company.pool, "desk-1")
    answer = submit(bob, a_body(cluster="desk"), is_plan=True)
    assert answer.status_code == 400
    assert answer.json()["errors"] == [
        {
            "pointer": "/manifest",
            "detail": "desk: it runs no Kubernetes manifests; name no cluster, or one that runs "
            "it: local",
            "code": "unavailable",
        }
    ]
    assert [note["line"] for note in answer.json()["notes"]][:2] == [6, 7]


def test_the_scheduler_offers_it_only_to_such_clusters(company: Company, bob: User) -> None:
    """Planted: the check at submission only, so that a later cluster of another kind got it."""
    assert submit(bob, a_body()).status_code == 201
    own = company.cluster
    # It runs images, as the manifest has one.
    options = {"kubeconfig": "/etc/y", "scheduler": "volcano", "pools": {"h100": POOL}}
    other = Cluster.objects.create(
        name="other", kind="kubernetes", options=options, seen_at=own.seen_at
    )
    (queued,) = load_snapshot(SystemClock().now()).queued
    assert queued.clusters == {str(own.pk)}
    assert str(other.pk) not in queued.clusters


def test_a_priority_class_that_the_portal_knows_counts(company: Company, bob: User) -> None:
    text = recorded("job").replace(
        "restartPolicy: Never", "restartPolicy: Never\n      priorityClassName: normal"
    )
    plan = submit(bob, {"team": TEAM, "manifest": text}, is_plan=True).json()
    assert plan["notes"][-2] == {
        "line": 0,
        "text": "priority class normal",
        "verdict": "understood",
        "detail": "priority_class = normal",
    }


def test_there_are_no_alternatives_to_a_manifest(company: Company, bob: User) -> None:
    """Planted: variants of its size, which the manifest would not have followed."""
    job = submit(bob, a_body()).json()
    Job.objects.update(explanation={"code": "waiting_for_free_gpus", "sentence": "It waits."})
    found = by_token(bob).post(f"jobs/{job['id']}/alternatives", {}).json()
    assert (found["items"], found["sentence"]) == (
        [],
        "Its size is in its manifest: to ask for less, change the manifest and submit it anew.",
    )


@pytest.mark.parametrize(
    ("parallelism", "said"),
    [
        (
            20,
            "planned with 5 GPUs on each node, and its cluster places each Pod. Each node gets "
            "equally many Pods, so the job needs 4 nodes at once; a multiple of 8 Pods fills its "
            "nodes.",
        ),
        (16, "planned with 8 GPUs on each node, and its cluster places each Pod."),
        (7, "planned with 7 GPUs on each node, and its cluster places each Pod."),
        (
            11,
            "so the job needs 11 nodes at once; a multiple of 8 Pods fills its nodes.",
        ),
    ],
)
def test_a_plan_says_that_unequal_groups_take_more_nodes(
    company: Company, bob: User, parallelism: int, said: str
) -> None:
    """Planted: no word of the nodes that it needs beyond those that its Pods fill."""
    text = (
        recorded("job")
        .replace("parallelism: 3", f"parallelism: {parallelism}")
        .replace("completions: 3", f"completions: {parallelism}")
    )
    plan = submit(bob, {"team": TEAM, "manifest": text}, is_plan=True).json()
    assert plan["notes"][-1]["detail"].endswith(said)


@pytest.mark.parametrize(
    ("parallelism", "gpus", "size"),
    [(3, 1, (3_000, 1)), (20, 1, (5_000, 4)), (4, 8, (8_000, 4)), (2, 4, (8_000, 1))],
)
def test_pods_share_nodes(
    company: Company, bob: User, parallelism: int, gpus: int, size: tuple[int, int]
) -> None:
    """Planted: a node for each Pod, of which 20 never fitted on 4 nodes."""
    text = (
        recorded("job")
        .replace("parallelism: 3", f"parallelism: {parallelism}")
        .replace("completions: 3", f"completions: {parallelism}")
        .replace("nvidia.com/gpu: 1", f"nvidia.com/gpu: {gpus}")
    )
    plan = submit(bob, {"team": TEAM, "manifest": text}, is_plan=True).json()
    assert (plan["job"]["mgpu_per_node"], plan["job"]["node_count"]) == size


def test_a_manifest_finds_its_pool_by_the_type_that_it_selects(company: Company, bob: User) -> None:
    """Against: the selector left out, so that a pool had to be named."""
    other = a_pool("a100")
    a_quota(company.organization, other, 8)
    a_cluster_node(company.cluster, other)
    company.cluster.refresh_from_db()
    company.cluster.options["pools"]["a100"] = {**POOL, "node_selector": {"kind": "a100"}}
    company.cluster.save()
    body = a_body()
    body["manifest"] = body["manifest"].replace(
        "      containers:",
        "      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}\n      containers:",
    )
    assert "nodeSelector" in body["manifest"]
    refused = submit(bob, body, is_plan=True)
    assert "the manifest may run in several: a100, h100" in refused.json()["detail"]
    PoolAlias.objects.create(folded="nvidia-h100-80gb-hbm3", pool=company.pool)
    plan = submit(bob, body, is_plan=True)
    assert (plan.status_code, plan.json()["pool"]) == (200, "h100")


def test_a_trainjob_without_an_image_has_that_of_its_runtime(company: Company, bob: User) -> None:
    """Planted: a job without an image runs nowhere, whatever its launch."""
    text = recorded("trainjob").replace("    image: registry.example.com/finetune:2\n", "")
    answer = submit(bob, {"team": TEAM, "manifest": text})
    assert answer.status_code == 201, answer.content
    job = Job.objects.get()
    assert (job.image, job.launch, job.node_count, job.mgpu_per_node) == (
        *(None, "manifest", 1, 8_000),
    )
    (queued,) = load_snapshot(SystemClock().now()).queued
    assert queued.clusters is None
