"""The request of a stored job, as the body that submits the same job again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.models import JobOrigin, JobState, JobType, Launch
from jobs.reading.queries import (
    JobContent,
    JobRow,
    get_content,
    get_dependencies,
    get_job,
)
from jobs.submission.job_members import STORED, JobMembers
from jobs.submission.manifest_requests import IN_MANIFEST
from primitives.errors import Conflict, Forbidden
from primitives.units import MGPU_PER_GPU, DeviceKind
from tenants.access import Actor

#: The defaults of stored members. A member of this value is left out.
_DEFAULTS: Mapping[str, Any] = {
    name: list(default) if isinstance(default, tuple) else default
    for name in STORED
    if (default := JobMembers.model_fields[name].default) is not None
}


def request_of_job(job_id: UUID, *, actor: Actor, now: datetime) -> dict[str, Any]:
    """Return the body that submits a visible job again. Members with their default are left out.

    A task of an array is requested alone. Raises NotFound, Forbidden for a job whose script the
    actor may not read, and Conflict for a job that was submitted directly to its cluster.
    """
    view = get_job(job_id, actor=actor, now=now)
    if view.job.origin == JobOrigin.NATIVE:
        raise Conflict(
            "This job was submitted directly to its cluster, so its request is not known here."
        )
    content = get_content(view, actor=actor, now=now)
    if content.script is None:
        raise Forbidden("You can see this job but not read its script; its owner can.")
    dependencies = [
        {
            "array" if row.array_id is not None else "job": str(row.array_id or row.predecessor_id),
            "condition": row.condition,
        }
        for row in get_dependencies(view)
    ]
    body = {
        **body_of_job(view.job, content),
        "begin_at": _begin_text(view.job),
        "held": True if view.job.state == JobState.HELD else None,
        "depends_on": dependencies or None,
    }
    return {
        name: value
        for name, value in body.items()
        if value is not None and _DEFAULTS.get(name, ...) != value
    }


def body_of_job(job: JobRow, content: JobContent) -> dict[str, Any]:
    """Return the body of a request for the same job, with its size by node.

    For a task of an array it requests that task alone. Dependencies and begin time are left out. So
    is the script if the actor may not read it.
    """
    index, pools = job.array_index, list(job.pool_names)
    by_default = JobType.DISTRIBUTED if job.node_count > 1 else JobType.TRAINING
    body: dict[str, Any] = {
        "team": job.team__path.rstrip("/"),
        "name": job.name if index is None else job.name.removesuffix(f"[{index}]"),
        **({"pool": pools[0]} if len(pools) == 1 else {"pools": pools}),
        **job.stored,
        **content.stored,
        "begin_at": None,
        "features": list(job.stored["features"]) or None,
        **_size_of(job),
        "priority_class": job.priority_class__name,
        "type": None if job.type in {by_default, JobType.ARRAY} else job.type,
        "cluster": job.cluster__name,
        "array": None if index is None else str(index),
        "environment": dict(content.environment or {}) or None,
        "script": content.script,
    }
    if job.stored["launch"] == Launch.MANIFEST:
        body = {name: value for name, value in body.items() if name not in IN_MANIFEST}
        body["manifest"] = body.pop("script")
    return {name: value for name, value in body.items() if value is not None}


def _size_of(job: JobRow) -> dict[str, Any]:
    is_elastic = job.least_node_count < job.node_count
    nodes = {"nodes": job.node_count, "nodes_min": job.least_node_count if is_elastic else None}
    whole, rest = divmod(job.mgpu_per_node, MGPU_PER_GPU)
    if job.pool__device == DeviceKind.CPU:
        return {"cpus_per_node": whole, **nodes}
    each = job.mgpu_per_node / MGPU_PER_GPU if rest else whole
    return {"gpus_per_node": each, **nodes, "cpus_per_node": job.stored["cpus_per_node"]}


def _begin_text(job: JobRow) -> str | None:
    begin_at: datetime | None = job.stored["begin_at"]
    return None if begin_at is None else begin_at.isoformat().replace("+00:00", "Z")
