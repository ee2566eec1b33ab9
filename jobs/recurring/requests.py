"""The body of `POST /schedules`: when runs are due, and the request of each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobs.recurring.cron import BadCron, check_cron
from jobs.schedule_models import STARTING_DEADLINE_S_MIN, ConcurrencyPolicy
from jobs.submission.problems import in_request, refused_lines
from jobs.submission.requests import JobRequest, read_job_request
from jobs.submission.sbatch_notes import NOTE_TEXT_MAX, Note, Verdict, refused_of
from jobs.templates.applying import with_template
from manifests.cron_jobs import CronJob, read_cron_job
from primitives.durations import duration_of_seconds
from primitives.errors import FieldError, InvalidRequest
from tenants.access import Actor
from tenants.names import check_time_zone

#: Members that a CronJob has in its own words.
_IN_MANIFEST = ("cron", "time_zone", "concurrency_policy", "starting_deadline_s", "is_suspended")


@dataclass(frozen=True, slots=True)
class ScheduleRequest:
    """A well-formed request for a schedule. `time_zone` None means that of the organization.

    `body` is the request of each run as it is stored: with the id of its template, if it has one,
    and without the members of that. `job` is the request as it was read now, with these members.
    """

    cron: str
    time_zone: str | None
    concurrency_policy: str
    starting_deadline_s: int | None
    is_suspended: bool
    body: Mapping[str, Any]
    job: JobRequest

    def with_job(self, job: JobRequest) -> ScheduleRequest:
        """Return the request with `job`, which has more notes."""
        return replace(self, job=job)


def read_schedule_request(given: Mapping[str, Any], *, actor: Actor) -> ScheduleRequest:
    """Return the request in a body with known members. Members of None count as absent.

    A CronJob in `request.manifest` says itself when its runs are due. Raises InvalidRequest, also
    for a template that the actor may not use, and for members that it locks.
    """
    body = {name: value for name, value in given["request"].items() if value is not None}
    if "begin_at" in body:
        detail = "is not given in a schedule, whose runs begin at its times; leave it out"
        raise InvalidRequest(
            f"begin_at {detail}.", errors=[FieldError("/request/begin_at", detail)]
        )
    text = body.get("manifest")
    found = read_cron_job(text) if isinstance(text, str) else None
    if found is None:
        with in_request():
            job = read_job_request(with_template(body, actor=actor))
        cron = given.get("cron")
        if cron is None:
            detail = "is required, such as 0 3 * * *, unless the manifest is a CronJob"
            raise InvalidRequest(
                f"cron {detail}.", errors=[FieldError("/cron", detail, "required")]
            )
        return ScheduleRequest(
            cron=_checked_cron(cron),
            time_zone=_checked_zone(given.get("time_zone")),
            concurrency_policy=given.get("concurrency_policy") or ConcurrencyPolicy.ALLOW.value,
            starting_deadline_s=given.get("starting_deadline_s"),
            is_suspended=given.get("is_suspended") or False,
            body=_without_team(body),
            job=job,
        )
    return _of_cron_job(found, body, given)


def _of_cron_job(found: CronJob, body: dict[str, Any], given: Mapping[str, Any]) -> ScheduleRequest:
    errors = [
        FieldError(f"/{name}", "is not given beside a CronJob; change it in the manifest")
        for name in _IN_MANIFEST
        if given.get(name) is not None
    ]
    if "template" in body:
        errors.append(
            FieldError("/request/template", "is not given beside a CronJob; leave it out")
        )
    if errors:
        raise InvalidRequest(
            "; ".join(f"{one.pointer[1:]} {one.detail}" for one in errors), errors=errors
        )
    notes = [
        Note(one.line, one.where[:NOTE_TEXT_MAX], Verdict(one.verdict.value), one.detail)
        for one in found.findings
    ]
    if refused := refused_of(notes):
        raise InvalidRequest(
            "; ".join(f"line {note.line}: {note.detail}" for note in refused[:5]),
            errors=[
                replace(one, pointer=f"/request{one.pointer}")
                for one in refused_lines(refused, "manifest")
            ],
            notes=[note.as_json() for note in notes],
        )
    assert found.schedule is not None
    deadline_s = found.starting_deadline_s
    if deadline_s is not None and deadline_s < STARTING_DEADLINE_S_MIN:
        least = duration_of_seconds(STARTING_DEADLINE_S_MIN)
        detail = f"the starting deadline is {least}, the least here"
        notes.append(Note(0, "spec.startingDeadlineSeconds", Verdict.UNDERSTOOD, detail))
        deadline_s = STARTING_DEADLINE_S_MIN
    body = {**body, "manifest": found.text}
    with in_request():
        job = read_job_request(body)
    # Notes on the manifest name lines of the text that was given, and not of the stored one.
    of_runs = len(found.runs.findings)
    on_schedule = len(found.findings) - of_runs
    given_notes = notes[on_schedule : on_schedule + of_runs]
    others = job.notes[of_runs:]
    on_schedule_notes = (*notes[:on_schedule], *notes[on_schedule + of_runs :])
    job = job.model_copy(
        update={
            "notes": (*given_notes, *others, *on_schedule_notes),
            "manifest_job": found.runs.job,
        }
    )
    return ScheduleRequest(
        cron=_checked_cron(found.schedule),
        time_zone=_checked_zone(found.time_zone),
        concurrency_policy=found.concurrency_policy or ConcurrencyPolicy.ALLOW.value,
        starting_deadline_s=deadline_s,
        is_suspended=found.is_suspended,
        body=_without_team(body),
        job=job,
    )


def _without_team(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without its team, whose path may change; the schedule knows the team."""
    return {name: value for name, value in body.items() if name != "team"}


def _checked_cron(text: str) -> str:
    try:
        return check_cron(text)
    except BadCron as problem:
        raise InvalidRequest(
            f"cron {problem}.", errors=[FieldError("/cron", str(problem))]
        ) from None


def _checked_zone(name: str | None) -> str | None:
    return None if name is None else check_time_zone(name)
