"""LeaderWorkerSets as JobSets: their Pods, what these find, and what is refused."""

from __future__ import annotations

from typing import Any

from manifests.findings import Verdict
from manifests.reading import read_manifest

TEXT = """apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: serve}
spec:
  replicas: 2
  startupPolicy: LeaderReady
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
        - {name: lead, image: "x:1", env: [{name: LWS_GROUP_SIZE, value: "9"}, {name: A, value: b}]}
    workerTemplate:
      spec:
        containers:
        - {name: work, image: "x:1", resources: {limits: {nvidia.com/gpu: 8}}}
"""


def jobs_of(text: str) -> list[dict[str, Any]]:
    (job,) = read_manifest(text).jobs
    assert job.kind == "JobSet"
    replicated: list[dict[str, Any]] = job.document.value["spec"]["replicatedJobs"]
    return replicated


def variables(job: dict[str, Any]) -> dict[str, str]:
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    return {
        one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"]
        for one in container["env"]
    }


def test_each_pod_is_a_job_of_its_group_with_the_variables_of_the_group() -> None:
    """The number of a Job in its group is the index of its Pod, since the leader's comes first.

    Planted: the address of the first group's leader for all groups; own values of the file.
    """
    jobs = jobs_of(TEXT)
    assert [(job["name"], job["groupName"], job["replicas"]) for job in jobs] == [
        ("leader-0", "group-0", 1),
        ("worker-0", "group-0", 1),
        ("leader-1", "group-1", 1),
        ("worker-1", "group-1", 1),
    ]
    jobset = "$(LWS_JOBSET_NAME)"
    assert [variables(job)["LWS_LEADER_ADDRESS"] for job in jobs] == [
        f"{jobset}-leader-{group}-0-0.{jobset}" for group in (0, 0, 1, 1)
    ]
    assert {variables(job)["LWS_WORKER_INDEX"] for job in jobs} == {
        "metadata.labels['jobset.sigs.k8s.io/job-group-index']"
    }
    assert {variables(job)["LWS_GROUP_SIZE"] for job in jobs} == {"2"}
    assert variables(jobs[0])["A"] == "b"
    marks = [job["template"]["spec"]["template"]["metadata"]["labels"] for job in jobs[2:]]
    assert marks == [
        {
            "leaderworkerset.sigs.k8s.io/group-index": "1",
            "leaderworkerset.sigs.k8s.io/worker-index": "0",
        },
        {"leaderworkerset.sigs.k8s.io/group-index": "1"},
    ]


def test_ranks_are_those_of_the_groups_in_order() -> None:
    """Planted: the ranks of the first group for all groups."""
    (job,) = read_manifest(TEXT.replace("size: 2", "size: 40")).jobs
    assert [(one.name, one.ranks_from, one.copies) for one in job.pod_sets] == [
        ("leader-0", 0, 1),
        ("worker-0", 1, 39),
        ("leader-1", 40, 1),
        ("worker-1", 41, 39),
    ]
    assert (job.ranks, job.nodes) == (80, 78)


def test_what_keeps_a_service_alive_is_told() -> None:
    told = {one.detail: one.line for one in read_manifest(TEXT).findings}
    assert told["all Pods start at once"] == 6
    assert (
        "4 Pods are one job, run as a JobSet until they end, its time limit ends, or somebody "
        "cancels it" in told
    )


def test_too_many_pods_and_claims_of_volumes_are_refused_with_their_lines() -> None:
    """Planted: a Job for each of too many groups."""
    text = TEXT.replace("size: 2", "size: 3000\n    volumeClaimTemplates: []")
    text = text.replace("replicas: 2", "replicas: 10")
    refusals = [one for one in read_manifest(text).findings if one.verdict is Verdict.REFUSED]
    assert sorted((one.line, one.detail) for one in refusals) == [
        (
            5,
            "must be at most 9: Kueue takes 18 kinds of Pods in a job, and a group has 2; submit "
            "the groups in several files",
        ),
        (8, "have 30,000 Pods, and a job has at most 4,096"),
        (
            9,
            "are not made for jobs; create the claims with kubectl and name them in the Pods",
        ),
    ]
    assert len(jobs_of(text)) == 18
    # A leader alone is one kind of Pods.
    alone = TEXT.replace("replicas: 2", "replicas: 18").replace("size: 2", "size: 1")
    assert len(jobs_of(alone)) == 18


def test_pods_of_a_replica_are_not_kept_together() -> None:
    """Against: the words of Kueue's webhook about a JobSet that nobody wrote."""
    mark = "kueue.x-k8s.io/podset-group-name"
    template = f"    workerTemplate:\n      metadata: {{annotations: {{{mark}: pair}}}}\n"
    found = read_manifest(TEXT.replace("    workerTemplate:\n", template))
    assert [(one.where.partition(": ")[2], one.detail) for one in found.refusals] == [
        (
            f"spec.leaderWorkerTemplate.workerTemplate.metadata.annotations.{mark}",
            "keeps the Pods of a replica together, and a JobSet keeps no replicas; leave it out, "
            "so that all Pods of the job share the topology",
        )
    ]


def test_a_set_without_a_template_is_refused_and_nothing_raises() -> None:
    for part in ("workerTemplate: 7", "workerTemplate: {spec: {containers: x}}", "size: x"):
        text = TEXT[: TEXT.index("    size")] + f"    {part}\n"
        assert not read_manifest(text).is_accepted
