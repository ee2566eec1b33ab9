"""The JSON of jobs and attempts, limited to what the caller may see.

A body has UUIDs and times as Python objects; `written` turns them into JSON all at once. A page
has hundreds of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from jobs.access import may_read_content, may_see
from jobs.lifecycle import FINAL, OPEN, WAITING
from jobs.models import JobOrigin, JobState, Launch
from jobs.queue.reason_documents import ISO, iso
from jobs.reading.costs import cost_of_job, sees_cost
from jobs.reading.endings import exit_code_meaning, ignored_notice
from jobs.reading.explaining import waiting_explanation
from jobs.reading.giving_back import beneficiary_of, notice_handling
from jobs.reading.queries import (
    AttemptRow,
    DependencyRow,
    JobRow,
    JobView,
    get_content,
    get_dependencies,
    get_job,
    get_schedule,
)
from jobs.submission.job_arrays import ArrayView
from jobs.submission.job_members import stored_by
from jobs.whatif.budget_effects import BudgetEffect
from jobs.whatif.extension import ExtensionPlan
from jobs.whatif.preview import Preview
from jobs.whatif.waiting_costs import WaitingCosts, waiting_costs
from primitives.units import MGPU_PER_GPU, DeviceKind
from tenants.access import Actor
from tenants.roles import Permission


class Rights:
    """The rights of one caller to jobs, cached by owner and team for a whole page."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._own_id = actor.user.pk
        self._known: dict[tuple[bool, str], tuple[bool, bool]] = {}

    def to(self, job: JobRow) -> tuple[bool, bool]:
        """Return whether the caller may manage the job, and whether they may read its content."""
        is_own = job.user_id == self._own_id
        key = (is_own, job.team__path)
        rights = self._known.get(key)
        if rights is None:
            may_manage = (is_own and self.actor.permits(Permission.SUBMIT_JOBS)) or (
                self.actor.holds(Permission.MANAGE_JOBS, job.team__path)
            )
            may_read = may_read_content(self.actor, user_id=job.user_id, team_path=job.team__path)
            rights = self._known[key] = (may_manage, may_read)
        return rights


def written(body: Mapping[str, Any]) -> orjson.Fragment:
    """Return the JSON of a body. Times must be in UTC and get whole seconds and `Z`."""
    return orjson.Fragment(orjson.dumps(body, option=ISO))


def job_body(view: JobView, *, rights: Rights, now: datetime) -> dict[str, Any]:
    """Return a job as lists show it."""
    job, actor = view.job, rights.actor
    return {
        "id": job.id,
        "name": job.name,
        "type": job.type,
        "origin": job.origin,
        "team": job.team__path.rstrip("/"),
        "user": job.user__username,
        "organization": job.organization__slug,
        "pool": job.pool__name,
        "pools": job.pool_names,
        "device": job.pool__device,
        "state": job.state,
        "priority_class": job.priority_class__name,
        "mgpu_per_node": job.mgpu_per_node,
        "node_count": job.node_count,
        "node_count_min": job.least_node_count,
        "mgpu": job.mgpu,
        "mgpu_min": job.mgpu_per_node * job.least_node_count,
        **job.stored,
        **_cores(job.pool__device, job.mgpu_per_node),
        "cluster": job.cluster__name,
        "array": None
        if job.array_id is None
        else {"id": str(job.array_id), "index": job.array_index, "size": job.array__size},
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "end_reason": job.end_reason,
        "exit_code": job.exit_code,
        "exit_code_meaning": _exit_code_meaning(job, view.attempt),
        "attempt": job.attempt_number,
        "current_attempt": None
        if view.attempt is None
        else attempt_body(view.attempt, actor=actor),
        "notice_handling": notice_handling(
            checkpoint_at=None if view.attempt is None else view.attempt.checkpoint_at,
            checkpoint_path=job.stored["checkpoint_path"],
            signal=job.stored["notice_signal"],
        ),
        "explanation": waiting_explanation(view, actor=actor, now=now),
        "usage": {
            "guaranteed_mgpu_s": view.guaranteed_mgpu_s,
            "borrowed_mgpu_s": view.borrowed_mgpu_s,
        },
        "can": allowed_actions(job, rights),
    }


def _cores(device: str, mgpu_per_node: int) -> dict[str, int]:
    """Return the CPUs per node of a job in a pool of CPU cores, which are its size."""
    return {"cpus_per_node": mgpu_per_node // MGPU_PER_GPU} if device == DeviceKind.CPU else {}


def detail_body(job_id: UUID, *, actor: Actor, now: datetime) -> dict[str, Any]:
    """Return a job with its script, environment and cost, as far as the caller may see them.

    Raises NotFound, whether the job is absent or not visible.
    """
    view = get_job(job_id, actor=actor, now=now)
    content = get_content(view, actor=actor, now=now)
    cost = cost_of_job(view.job, actor=actor, now=now)
    schedule = get_schedule(view)
    plan = None
    if view.job.state in WAITING:
        plan = waiting_costs(
            job_id,
            sees_cost=sees_cost(view.job.user_id, view.job.team__path, actor),
            charged_nano=0 if cost is None else cost.cost_nano,
            actor=actor,
            now=now,
        )
    return {
        **job_body(view, rights=Rights(actor), now=now),
        "script": content.script,
        "environment": content.environment,
        "notes": content.notes,
        **content.stored,
        "cost": None if cost is None else cost._asdict(),
        "plan": None if plan is None else _plan_body(plan),
        "schedule": None if schedule is None else {"id": schedule.pk, "name": schedule.name},
        "depends_on": [_dependency_body(row, actor=actor) for row in get_dependencies(view)],
    }


def _plan_body(plan: WaitingCosts) -> dict[str, Any]:
    """Return the cost of a waiting job and its effect on budgets."""
    cost = plan.cost
    return {
        "seconds": plan.seconds,
        "cost_nano": None if cost is None else cost.billed_nano,
        "unbilled_nano": None if cost is None else cost.unbilled_nano,
        "price_mode": None if cost is None else cost.mode,
        "currency": None if cost is None else cost.currency,
        "budgets": [_budget_effect(one) for one in plan.budgets],
    }


def _dependency_body(row: DependencyRow, *, actor: Actor) -> dict[str, Any]:
    """Return a dependency. The other job is null where the caller may not see it."""
    user_id = row.predecessor__user_id or row.array__user_id
    team_path = row.predecessor__team__path or row.array__team__path
    assert user_id is not None
    assert team_path is not None
    is_seen = may_see(actor, user_id=user_id, team_path=team_path)
    return {
        "job": _text(row.predecessor_id) if is_seen else None,
        "array": _text(row.array_id) if is_seen else None,
        "name": (row.predecessor__name or row.array__name) if is_seen else None,
        "state": row.predecessor__state if is_seen else None,
        "condition": row.condition,
        "is_met": row.is_met,
    }


def attempt_body(attempt: AttemptRow, *, actor: Actor) -> dict[str, Any]:
    """Return an attempt. The job that gets its GPUs is null where the caller may not see it."""
    beneficiary = beneficiary_of(attempt, actor)
    return {
        "id": attempt.id,
        "number": attempt.number,
        "cluster": attempt.cluster__name,
        "state": attempt.state,
        "native_id": attempt.native_id,
        "native_state": attempt.native_state,
        "slots": _json(attempt.slots),
        "granted_at": attempt.granted_at,
        "started_at": attempt.started_at,
        "checkpoint_at": attempt.checkpoint_at,
        "notice_at": attempt.notice_at,
        "grace_until": attempt.grace_until,
        "ended_at": attempt.ended_at,
        "released_at": attempt.released_at,
        "stop_reason": attempt.stop_reason,
        "outcome": attempt.outcome,
        "exit_codes": _json(attempt.exit_codes),
        "ignored_notice": ignored_notice(
            outcome=attempt.outcome,
            notice_at=attempt.notice_at,
            grace_until=attempt.grace_until,
            ended_at=attempt.ended_at,
        ),
        "mgpu": attempt.mgpu,
        "guaranteed_mgpu": attempt.guaranteed_mgpu,
        "borrowed_mgpu": attempt.mgpu - attempt.guaranteed_mgpu,
        "message": attempt.message,
        "beneficiary": None if beneficiary is None else beneficiary["job"],
        "made_room_for": beneficiary,
    }


def _exit_code_meaning(job: JobRow, attempt: AttemptRow | None) -> str | None:
    if job.exit_code is None:
        return None
    if attempt is None:
        return exit_code_meaning(job.exit_code)
    return exit_code_meaning(
        job.exit_code,
        outcome=attempt.outcome,
        native_state=attempt.native_state,
        message=attempt.message,
    )


def history_body(
    events: Sequence[tuple[datetime, str, Mapping[str, Any]]],
) -> dict[str, Any]:
    """Return a timeline."""
    return {
        "items": [{"at": iso(at), "event": event, "detail": detail} for at, event, detail in events]
    }


def allowed_actions(job: JobRow, rights: Rights) -> list[str]:
    """Return the actions that the caller may take on the job in its present state."""
    may_manage, may_read = rights.to(job)
    actions = []
    if may_manage:
        if job.state not in FINAL and job.cancel_requested_at is None:
            actions.append("cancel")
            if job.state == JobState.RUNNING and job.origin == JobOrigin.PORTAL:
                actions.append("requeue")
            if _may_be_extended(job):
                actions.append("extend")
        if job.state == JobState.QUEUED:
            actions.append("hold")
        if job.state == JobState.HELD:
            actions.append("release")
    if job.attempt_number > 0 and may_read and job.origin == JobOrigin.PORTAL:
        actions.append("logs")
    return actions


def _may_be_extended(job: JobRow) -> bool:
    """Return whether the job has a time limit that can be made longer, as far as lists know."""
    if job.stored["time_limit_s"] is None or job.origin != JobOrigin.PORTAL:
        return False
    return job.state in WAITING or (
        job.state == JobState.RUNNING and job.stored["launch"] != Launch.MANIFEST
    )


def _json(value: Any) -> Any:
    """Return the value. JSON text from the database is embedded without parsing it."""
    return orjson.Fragment(value) if isinstance(value, str) else value


def array_body(view: ArrayView) -> dict[str, Any]:
    """Return an array with its tasks counted by state."""
    array = view.array
    is_open = any(view.counts[state.value] for state in OPEN)
    return {
        "id": str(array.id),
        "name": array.name,
        "team": array.team.path.rstrip("/"),
        "user": array.user.username,
        "organization": array.team.path.partition("/")[0],
        "pools": view.pools,
        "indices": array.indices,
        "size": array.size,
        "max_running": array.max_running,
        "submitted_at": iso(array.submitted_at),
        "counts": view.counts,
        "first_started_at": _iso(view.first_started_at),
        "first_ended_at": _iso(view.first_ended_at),
        "last_ended_at": _iso(view.last_ended_at),
        "can": ["cancel"] if is_open and view.may_manage else [],
    }


def plan_body(preview: Preview) -> dict[str, Any]:
    """Return the plan of a request."""
    resolved, wanted = preview.resolved, preview.resolved.request
    return {
        "job": {
            "name": wanted.name,
            "type": resolved.type.value,
            "team": resolved.team.display_path,
            "pool": resolved.pool.name,
            "pools": [one.pool.name for one in resolved.in_each_pool],
            "device": resolved.pool.device,
            "priority_class": resolved.priority_class.name,
            "mgpu_per_node": resolved.mgpu_per_node,
            "node_count": resolved.node_count_max,
            "node_count_min": resolved.node_count,
            "mgpu": resolved.mgpu_max,
            "mgpu_min": resolved.mgpu,
            **stored_by(wanted),
            **_cores(resolved.pool.device, resolved.mgpu_per_node),
            "begin_at": None if wanted.begin_at is None else iso(wanted.begin_at),
            "cluster": None if resolved.cluster is None else resolved.cluster.name,
            "held": wanted.held,
            "tasks": 1 if wanted.array is None else wanted.array.size,
            "tasks_at_once": None if wanted.array is None else wanted.array.max_running,
        },
        "notes": [note.as_json() for note in resolved.notes],
        "fits": preview.fits,
        "explanation": preview.explanation,
        "would_start_now": preview.would_start_now,
        "guaranteed_mgpu": preview.guaranteed_mgpu,
        "mgpu": preview.mgpu,
        "borrowed_mgpu": preview.mgpu - preview.guaranteed_mgpu,
        "cluster": preview.cluster,
        "pool": preview.pool,
        "cost_per_hour_nano": None if preview.cost is None else preview.cost.billed_nano,
        "unbilled_per_hour_nano": None if preview.cost is None else preview.cost.unbilled_nano,
        "price_mode": None if preview.cost is None else preview.cost.mode,
        "currency": None if preview.cost is None else preview.cost.currency,
        "cost_cap_after_s": preview.cost_cap_after_s,
        "budgets": [_budget_effect(one) for one in preview.budgets],
    }


def extension_body(plan: ExtensionPlan) -> dict[str, Any]:
    """Return the plan of a longer time limit."""
    cost = plan.costs.cost
    return {
        "job": str(plan.job_id),
        "before_s": plan.before_s,
        "time_limit_s": plan.limit_s,
        "ends_before": _iso(plan.ends_before),
        "ends_at": _iso(plan.ends_at),
        "notice_at": _iso(plan.notice_at),
        "mgpu": plan.mgpu,
        "cost_nano": None if cost is None else cost.billed_nano,
        "unbilled_nano": None if cost is None else cost.unbilled_nano,
        "price_mode": None if cost is None else cost.mode,
        "currency": None if cost is None else cost.currency,
        "budgets": [_budget_effect(one) for one in plan.costs.budgets],
        "delays": [
            {**one._asdict(), "before": _iso(one.before), "after": _iso(one.after)}
            for one in plan.delays
        ],
        "delayed_jobs": plan.delayed_jobs,
        "until": iso(plan.until),
        "is_cut": plan.is_cut,
        "notes": list(plan.costs.notes),
        "unseen": plan.unseen,
        "refusal": plan.refusal,
    }


def _budget_effect(one: BudgetEffect) -> dict[str, Any]:
    budget = one.budget
    return {
        "id": str(budget.pk),
        "name": budget.name,
        "node": budget.node.display_path,
        "measure": budget.measure,
        "currency": one.currency,
        "policy": budget.policy,
        "limit": budget.limit,
        "needed": one.needed,
        "left_after": one.left - one.needed,
        "room_at": iso(one.room_at),
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)
