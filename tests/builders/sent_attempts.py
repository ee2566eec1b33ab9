"""Attempts that were sent to a cluster and do not start, and what their users are told."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from builders import job_builders
from builders.loop_builders import a_job
from builders.portal_builders import NOW, Company
from jobs.models import Attempt, Job, JobState
from jobs.reading.explaining import explanation_of
from jobs.reading.queries import get_job
from tenants.access import Actor
from tenants.models import User

RELEASED = NOW - timedelta(minutes=5)


def an_attempt(company: Company, user: User, **values: Any) -> Attempt:
    job = a_job(company.nlp, user, company.pool, state=JobState.STARTING)
    sent: dict[str, Any] = {
        "cluster": company.cluster,
        "state": "starting",
        "nodes": ("n",),
        "granted_at": RELEASED,
        "native_id": "7",
        "native_state": "PENDING",
        "release_sent_at": RELEASED,
    }
    return job_builders.an_attempt(job, **{**sent, **values})


def told(job: Job, actor: Actor, *, now: datetime = NOW) -> str:
    sentence: str = explanation_of(get_job(job.id, actor=actor, now=now), actor=actor, now=now)[
        "sentence"
    ]
    return sentence
