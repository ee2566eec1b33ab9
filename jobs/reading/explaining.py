"""Why a job waits, as one object for pages, the API, the command line and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from arbiter.explain.phrases import duration_text
from jobs.access import may_see
from jobs.lifecycle import FINAL, NOT_STARTED
from jobs.models import AttemptState, Condition, JobState
from jobs.queue.avoided_clusters import AVOIDED_FOR
from jobs.queue.dependencies import fate
from jobs.queue.reason_documents import HELD_BY_USER, arranged, held_sentence, iso, stored_reason
from jobs.queue.withholding import limit_sentence
from jobs.reading.giving_back import beneficiary_text, shown_victim
from jobs.reading.queries import VICTIMS_MAX, AttemptRow, JobRow, JobView, WaitedForRow
from primitives.state_words import state_phrase
from primitives.units import MGPU_PER_GPU, DeviceKind, gpus_text
from quotas.fleet import may_manage_clusters
from quotas.user_numbers import refusal
from tenants.access import Actor
from tenants.roles import Permission

#: Codes beyond the arbiter's own.
DISPATCHING = "dispatching"
NOT_YET_DECIDED = "not_yet_decided"
NOT_WAITING = "not_waiting"
WOULD_START = "would_start"

#: States whose reason is known without the arbiter.
_ALWAYS_EXPLAINED = (JobState.HELD.value, JobState.STARTING.value)


def explanation_of(view: JobView, *, actor: Actor, now: datetime) -> dict[str, Any]:
    """Return why the job waits, or that it does not wait, or that no reason is known yet."""
    job = view.job
    if job.state == JobState.HELD:
        return plain_explanation(HELD_BY_USER, _why_held(view.ended_attempt), now)
    if job.state == JobState.STARTING:
        return plain_explanation(
            DISPATCHING, _joined(view.taken_back, _being_started(view, actor)), now
        )
    if job.state == JobState.PREEMPTING and view.attempt is not None:
        stopped = _being_stopped(job, view.attempt, actor)
        sentence = _joined(stopped, view.why_chosen, _trouble(view, actor))
        return plain_explanation(NOT_WAITING, sentence, now)
    if job.cancel_requested_at is not None and job.state not in FINAL:
        sentence = _joined("It is being cancelled.", _trouble(view, actor))
        return plain_explanation(NOT_WAITING, sentence, now)
    if job.state in FINAL:
        ended = f"It does not wait: it has ended ({job.state.replace('_', ' ')})."
        return plain_explanation(NOT_WAITING, ended, now)
    if job.state != JobState.QUEUED:
        sentence = f"It does not wait: it {state_phrase(job.state)}."
        if view.trouble is not None and view.trouble.failing_since is not None:
            sentence = _joined(sentence, _trouble(view, actor), "Its state is as of then.")
        sentence = _joined(sentence, view.taken_back)
        return plain_explanation(NOT_WAITING, sentence, now)
    if job.explanation is None:
        return plain_explanation(NOT_YET_DECIDED, "The scheduler has not looked at it yet.", now)
    shown = {
        # Reasons that an earlier version stored have none.
        "pool": None,
        **arranged(job.explanation),
        "victims": [shown_victim(victim, actor, now) for victim in view.victims],
    }
    if freed_mgpu := _freed_since(view, shown["numbers"]):
        _count_as_free(shown, freed_mgpu, DeviceKind(job.pool__device))
    if view.waited_for:
        shown["sentence"] = _waits_for(view.waited_for, shown["numbers"], actor)
    if view.first_task is not None:
        shown["sentence"] = limit_sentence(shown["numbers"], view.first_task)
    if larger := _larger_than_guarantees(view, shown["numbers"].get("need_mgpu", 0), actor):
        shown["sentence"] = _joined(shown["sentence"], larger)
    if view.quarantine:
        shown["sentence"] = view.quarantine
    for cluster, limit_s in view.too_short:
        shown["sentence"] = _joined(shown["sentence"], _too_long(job, cluster, limit_s))
    if view.archived:
        shown["sentence"] = _joined(shown["sentence"], _archived(view.archived))
    if view.unmapped:
        shown["sentence"] = _joined(shown["sentence"], _nobody_mapped(job, view.unmapped))
    if view.unisolated:
        sentence = refusal(view.unisolated, job.user__username)
        shown["sentence"] = _joined(shown["sentence"], sentence)
    if view.unprepared:
        team = job.team__path.rstrip("/")
        shown["sentence"] = _joined(shown["sentence"], not_set_up(team, view.unprepared))
    if first := _not_started(view.ended_attempt, now):
        shown["sentence"] = _joined(first, shown["sentence"])
    return shown


def _archived(clusters: Sequence[str]) -> str:
    """Return a sentence that names archived clusters with suitable nodes."""
    if len(clusters) == 1:
        return f"{clusters[0]}, which has such nodes, is archived and starts nothing."
    return f"{', '.join(clusters)}, which have such nodes, are archived and start nothing."


def _freed_since(view: JobView, numbers: Mapping[str, int]) -> int:
    """Return the milli-GPU that victims have released since the reason was stored."""
    if len(view.victims) == VICTIMS_MAX:
        return 0
    still_held = sum(victim.mgpu for victim in view.victims)
    return max(0, numbers.get("coming_back_mgpu", 0) - still_held)


def _count_as_free(shown: dict[str, Any], freed_mgpu: int, device: DeviceKind) -> None:
    """Add to sentence and numbers what became free since the reason was stored."""
    numbers = shown["numbers"]
    shown["numbers"] = numbers | {
        "coming_back_mgpu": numbers["coming_back_mgpu"] - freed_mgpu,
        "earmarked_mgpu": numbers.get("earmarked_mgpu", 0) + freed_mgpu,
    }
    has = "has" if freed_mgpu == MGPU_PER_GPU else "have"
    shown["sentence"] = _joined(
        shown["sentence"], f"Since then {device.text(freed_mgpu)} {has} come free for it."
    )


def _waits_for(rows: Sequence[WaitedForRow], numbers: Mapping[str, int], actor: Actor) -> str:
    """Return a sentence on the jobs that a dependent job waits for.

    It has the names of those that the actor may see.
    """
    seen = [row for row in rows if may_see(actor, user_id=row.user_id, team_path=row.team_path)]
    others = max(numbers.get("jobs_waited_for", 0), len(rows)) - len(seen)
    return waited_for_sentence([(row.name, row.condition, row.state) for row in seen], others)


_UNTIL = {
    Condition.SUCCEEDED.value: "has succeeded",
    Condition.ENDED.value: "has ended",
    Condition.FAILED.value: "has ended without success",
}


def waited_for_sentence(named: Sequence[tuple[str, str, str]], others: int) -> str:
    """Return a sentence on the jobs that a job waits for.

    `named` has (name, condition, state) of some predecessors; `others` is the number of the rest.
    """
    never = [(name, state) for name, condition, state in named if fate(condition, state) is False]
    if never:
        name, state = never[0]
        return f"It can never start and is being cancelled: {name} {state_phrase(state)}."
    parts = [
        f"{name} {_UNTIL[condition]} (it {state_phrase(state)})" for name, condition, state in named
    ]
    if others:
        parts.append("1 other job is done" if others == 1 else f"{others:,} other jobs are done")
    return f"It waits until {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}."


def _being_started(view: JobView, actor: Actor) -> str:
    """Return where the job is to start, and what delays it."""
    attempt, devices = view.attempt, DeviceKind(view.job.pool__device).plural
    if attempt is None:
        return f"Its {devices} are reserved and it is being started."
    obstacle = _joined(attempt.message, _trouble(view, actor))
    if attempt.state == AttemptState.STOPPING:
        done = f"It is being taken off {attempt.cluster__name} before it has started."
    elif obstacle:
        done = f"Its {devices} are reserved on {attempt.cluster__name}, where it waits."
    else:
        done = f"Its {devices} are reserved and it is being started on {attempt.cluster__name}."
    return _joined(done, obstacle)


def _trouble(view: JobView, actor: Actor) -> str:
    """Return why the cluster may not have received the portal's request yet.

    Only managers of clusters get the words of the cluster itself.
    """
    trouble, attempt = view.trouble, view.attempt
    if trouble is None or attempt is None:
        return ""
    text = ""
    if trouble.failing_since is not None:
        text = f"{attempt.cluster__name} has not answered since {iso(trouble.failing_since)}."
    if trouble.kind == "" or trouble.asked_at is None:
        return text
    what = "be sent there" if trouble.kind == "start_attempt" else "be stopped there"
    tries = "1 try" if trouble.tries == 1 else f"{trouble.tries} tries"
    text = _joined(
        text,
        f"It could not {what} yet ({tries} since {iso(trouble.asked_at)}); that is tried again "
        "by itself.",
    )
    if not may_manage_clusters(actor):
        return text
    return _joined(text, f"The last answer: {trouble.error.rstrip('.')}.")


def _larger_than_guarantees(view: JobView, need_mgpu: int, actor: Actor) -> str:
    """Return a sentence if the job is larger than every guarantee it could use.

    No other job is preempted for such a job. The sentence names the guarantees that the actor may
    see; it is "" if there are none.
    """
    guarantees = view.guarantees
    if not guarantees or any(mgpu >= need_mgpu for _, mgpu in guarantees):
        return ""
    device = DeviceKind(view.job.pool__device)
    seen = [
        f"{path.rstrip('/').rpartition('/')[2]} ({gpus_text(mgpu)})"
        for path, mgpu in guarantees
        if actor.holds(Permission.VIEW_TREE, path)
    ]
    if not seen:
        return ""
    whose = "guarantee of " if len(seen) == 1 else "guarantees of "
    named = " and ".join(part for part in (", ".join(seen[:-1]), seen[-1]) if part)
    return (
        f"Its {device.text(need_mgpu)} are more than the {whose}{named}, so no other job is "
        "preempted for it."
    )


def _not_started(attempt: AttemptRow | None, now: datetime) -> str:
    """Return that a cluster did not start the job lately, and until when it is avoided."""
    if attempt is None or attempt.outcome != NOT_STARTED or attempt.released_at is None:
        return ""
    if attempt.notice_at is None:
        # It got no notice to withdraw the start, because it did not answer.
        return attempt.message
    until = attempt.released_at + AVOIDED_FOR
    if until <= now:
        return ""
    cluster = attempt.cluster__name
    return (
        f"{cluster} did not start attempt {attempt.number}. {attempt.message} "
        f"{cluster} is tried again from {iso(until)} on, or once quotas are pushed to it."
    )


def _too_long(job: JobRow, cluster: str, limit_s: int) -> str:
    """Return that the job's time limit is longer than a cluster allows."""
    return (
        f"{cluster} lets no job run for longer than {duration_text(limit_s)}, and this one asks "
        f"for {duration_text(job.stored['time_limit_s'])}."
    )


def _nobody_mapped(job: JobRow, clusters: Sequence[str]) -> str:
    """Return on which clusters the job's user has no user, and who can help."""
    return (
        f"{job.user__username} has no user on {', '.join(clusters)}; an administrator of the "
        "platform can map one."
    )


def not_set_up(team: str, clusters: Sequence[str]) -> str:
    """Return on which clusters a team cannot submit yet, and who can help."""
    return (
        f"{team} is not set up on {', '.join(clusters)} yet; an administrator of the platform "
        "pushes the quotas to it."
    )


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _why_held(attempt: AttemptRow | None) -> str:
    if attempt is None:
        return held_sentence()
    return held_sentence(
        outcome=attempt.outcome,
        cluster=attempt.cluster__name,
        number=attempt.number,
        message=attempt.message,
    )


def _being_stopped(job: JobRow, attempt: AttemptRow, actor: Actor) -> str:
    """Return what the owner of a victim should know: since when, until when, and what next."""
    until = "" if attempt.grace_until is None else f", by force at {iso(attempt.grace_until)}"
    since = "" if attempt.notice_at is None else f" It got its notice at {iso(attempt.notice_at)}."
    device = DeviceKind(job.pool__device)
    whom = beneficiary_text(attempt, actor, device)
    return (
        f"Its {device.plural} are taken back{whom}: it is being stopped{until}.{since} It "
        "queues again at its old place, unless it was submitted without requeue."
    )


def waiting_explanation(view: JobView, *, actor: Actor, now: datetime) -> dict[str, Any] | None:
    """Return the explanation of a job that waits.

    None for a job that does not wait, or that is not decided yet.
    """
    job = view.job
    is_explained = job.state in _ALWAYS_EXPLAINED or (
        job.state == JobState.QUEUED and job.explanation is not None
    )
    return explanation_of(view, actor=actor, now=now) if is_explained else None


def plain_explanation(
    code: str, sentence: str, now: datetime, numbers: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return an explanation that names neither nodes nor other jobs."""
    return {**stored_reason(code, sentence, now, numbers), "victims": []}
