"""The reasons why native jobs wait, written onto their workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.db.models import F

from arbiter.api.plan import Code
from clusters.outside import Stranger
from connectors.natives import NativeRef, NativeStarter
from connectors.protocol import NativeWorkload, WorkloadPhase
from jobs import lifecycle
from jobs.execution.native_sizes import may_become, ref_of_job, ref_of_native
from jobs.models import Attempt, Job, JobState
from jobs.natives.asking_natives import Asking, Memory, Reported
from jobs.natives.natives import mgpu_of
from quotas.entitlement_amounts import entitlement_sentences

#: A reason with other numbers alone is written again after so long at the earliest.
REPORTED_AGAIN_AFTER = timedelta(seconds=60)
CHANGED_TOO_MUCH = (
    "changed_too_much",
    "Its request was changed to GPUs of another pool, to no GPUs, or to more than there can be. "
    "Change it back, or delete it and submit it again.",
)
_HELD_BY_USER = ("held_by_user", "It is held in Tidegate until a person releases it there.")

_WHY_STRANGE: Mapping[Stranger, str] = {
    Stranger.ACCOUNT: (
        "It requests no GPUs of a pool that Tidegate knows, or does not name the kind of GPU. Give "
        "its Pods the node selector of one kind of GPU."
    ),
    Stranger.MIXED: "It requests GPUs of several pools. Submit one workload for each of them.",
    Stranger.USER: "Its user is unknown to Tidegate.",
    Stranger.ORGANIZATION: "Its user belongs to another organization than its team.",
    Stranger.CLASS: "The organization of its team has no priority class.",
    Stranger.ODD: "Tidegate cannot read its request.",
}


def explain(
    listed: Mapping[UUID, NativeWorkload],
    jobs: Iterable[Job],
    strangers: Mapping[UUID, Stranger],
    *,
    starter: NativeStarter,
    asking: Asking,
    memory: Memory,
    now: datetime,
) -> None:
    """Write the reasons why they wait onto workloads of `listed`, where the reason is new.

    They are the workloads of `jobs`, and the `strangers`, which count for no team.
    """
    wanted: dict[UUID, tuple[NativeRef, str, str]] = {}
    jobs = list(jobs)
    not_started = _not_started(jobs)
    entitlements = entitlement_sentences(
        {(job.team_id, job.pool_id) for job in jobs if job.state == JobState.QUEUED}
    )
    for job in jobs:
        native = listed.get(job.id)
        if native is None or native.phase is not WorkloadPhase.HELD:
            continue
        if job.state in lifecycle.WAITING and not may_become(native, job.pool.name):
            wanted[job.id] = (ref_of_job(job), *CHANGED_TOO_MUCH)
        elif job.state == JobState.HELD:
            wanted[job.id] = (ref_of_job(job), *_HELD_BY_USER)
        elif job.state == JobState.QUEUED and job.explanation is not None:
            code, sentence = job.explanation["code"], job.explanation["sentence"]
            entitled = entitlements.get((job.team_id, job.pool_id), "")
            text = f"{not_started.get(job.id, '')}{sentence} {entitled}".rstrip()
            wanted[job.id] = (ref_of_job(job), code, text)
    for key, why in strangers.items():
        native = listed[key]
        is_shown = native.account and mgpu_of(native) > 0 and why in _WHY_STRANGE
        if is_shown and native.phase is WorkloadPhase.HELD:
            wanted[key] = (ref_of_native(native), why.value, _WHY_STRANGE[why])
    reported = memory.reported
    for key in reported.keys() - wanted.keys():
        del reported[key]
    news = [
        key
        for key, (_, code, sentence) in wanted.items()
        if _is_news(reported.get(key), code, sentence, now)
    ]
    for key in asking.least_recent_first(("explain",), news, lambda key: key):
        ref, code, sentence = wanted[key]
        write = partial(starter.explain, code=code, sentence=sentence)
        if asking.call("explain", key, write, ref):
            reported[key] = Reported(code, sentence, now)


def _is_news(reported: Reported | None, code: str, sentence: str, now: datetime) -> bool:
    if reported is None or reported.code != code:
        return True
    return reported.sentence != sentence and now - reported.at >= REPORTED_AGAIN_AFTER


def _not_started(jobs: Iterable[Job]) -> Mapping[UUID, str]:
    """Return what the cluster said about its failed start, for jobs that wait for a cluster.

    Only jobs whose latest attempt was not started are included.
    """
    waiting = [
        job.id
        for job in jobs
        if job.state == JobState.QUEUED
        and job.attempt_number
        and (job.explanation or {}).get("code") == Code.CLUSTER_UNAVAILABLE
    ]
    if not waiting:
        return {}
    latest = Attempt.objects.filter(
        job__in=waiting, number=F("job__attempt_number"), outcome=lifecycle.NOT_STARTED
    )
    return {job_id: f"{said} " for job_id, said in latest.values_list("job_id", "message")}
