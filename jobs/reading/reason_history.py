"""The history of reasons for which a job waited, for all who may see the job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.access import visible_jobs
from jobs.models import JobReason
from jobs.queue.reason_documents import arranged
from primitives.errors import NotFound
from tenants.access import Actor


def get_reasons(job_id: UUID, *, actor: Actor) -> list[tuple[datetime, Mapping[str, Any]]]:
    """Return the reasons of a visible job, each with its beginning, newest first.

    Raises NotFound.
    """
    if not visible_jobs(actor).filter(pk=job_id).exists():
        raise NotFound("There is no such job that you can see.")
    kept = JobReason.objects.filter(job_id=job_id).order_by("-number")
    return [
        (since, arranged(document)) for since, document in kept.values_list("since", "document")
    ]
