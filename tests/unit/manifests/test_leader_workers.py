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
    return {one["name"]: one.get("value", "") for one in container["env"]}


def test_each_pod_is_a_job_with_the_variables_of_its_group() -> None:
    """Planted: the address of the first group's leader for all groups; own values of the file."""
    jobs = jobs_of(TEXT)
    assert [job["name"] for job in jobs] == ["leader-0", "worker-0-1", "leader-1", "worker-1-1"]
    jobset = "$(LWS_JOBSET_NAME)"
    assert [variables(job)["LWS_LEADER_ADDRESS"] for job in jobs] == [
        f"{jobset}-leader-{group}-0-0.{jobset}" for group in (0, 0, 1, 1)
    ]
    assert [variables(job)["LWS_WORKER_INDEX"] for job in jobs] == ["0", "1", "0", "1"]
    assert {variables(job)["LWS_GROUP_SIZE"] for job in jobs} == {"2"}
    assert variables(jobs[0])["A"] == "b"


def test_ranks_are_those_of_the_groups_in_order() -> None:
    (job,) = read_manifest(TEXT).jobs
    assert [(one.name, one.ranks_from) for one in job.pod_sets] == [
        *(("leader-0", 0), ("worker-0-1", 1), ("leader-1", 2), ("worker-1-1", 3)),
    ]
    assert (job.ranks, job.nodes) == (4, 2)


def test_what_keeps_a_service_alive_is_told() -> None:
    told = {one.detail: one.line for one in read_manifest(TEXT).findings}
    assert told["all Pods start at once"] == 6
    assert (
        "4 Pods are one job, run as a JobSet until they end, its time limit ends, or somebody "
        "cancels it" in told
    )


def test_too_many_pods_and_claims_of_volumes_are_refused_with_their_lines() -> None:
    text = TEXT.replace("size: 2", "size: 10\n    volumeClaimTemplates: []")
    refusals = [one for one in read_manifest(text).findings if one.verdict is Verdict.REFUSED]
    assert sorted((one.line, one.detail) for one in refusals) == [
        (
            8,
            "makes 20 Pods, and a LeaderWorkerSet here has at most 18; submit a file for each "
            "replica, or write an Indexed Job",
        ),
        (
            9,
            "are not made for jobs; create the claims with kubectl and name them in the Pods",
        ),
    ]


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
