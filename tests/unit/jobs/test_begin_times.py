"""The times of `--begin`. `tests/slurm/test_sbatch_oracle.py` asks the real sbatch."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction

from builders.job_builders import a_body
from builders.portal_builders import Company, an_actor
from jobs.submission.begin_times import begin_of
from jobs.submission.requests import read_job_request
from jobs.submission.sbatch_notes import NotUnderstood
from jobs.submission.submission import submit_job_here
from jobs.whatif.preview import preview_job
from primitives.errors import InvalidRequest
from quotas.models import OrganizationPolicy
from tenants.roles import Role

NOW = datetime(2026, 11, 29, 13, 59, 32, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-29T13:59:32"),
        ("now+1hour", "2026-11-29T14:59:32"),
        ("now+3600", "2026-11-29T14:59:32"),
        ("now + 2 DAYS", "2026-12-01T13:59:32"),
        ("now-1week", "2026-11-22T13:59:32"),
        ("16:00", "2026-11-29T16:00:00"),
        ("13:59", "2026-11-30T13:59:00"),
        ("4:30PM", "2026-11-29T16:30:00"),
        ("12:30 am", "2026-11-30T00:30:00"),
        ("noon", "2026-11-30T12:00:00"),
        ("teatime", "2026-11-29T16:00:00"),
        ("fika", "2026-11-29T15:00:00"),
        ("midnight", "2026-11-30T00:00:00"),
        ("today", "2026-11-29T00:00:00"),
        ("tomorrow", "2026-11-30T00:00:00"),
        ("tomorrow 8:00", "2026-11-30T08:00:00"),
        ("noonTtomorrow", "2026-11-30T12:00:00"),
        ("11/29", "2027-11-29T00:00:00"),
        ("12/31", "2026-12-31T00:00:00"),
        ("12.31.27-08:00", "2027-12-31T08:00:00"),
        ("010127", "2027-01-01T00:00:00"),
        ("2026-12-01T08:00", "2026-12-01T08:00:00"),
        ("2027-02-30", "2027-03-02T00:00:00"),
        ("uts1800000000", "2027-01-15T08:00:00"),
    ],
)
def test_a_text_is_the_time_that_sbatch_takes_it_for(text: str, expected: str) -> None:
    """Planted: a clock time of this minute that is today, a day without a year that is past."""
    assert begin_of(text, NOW).strftime("%Y-%m-%dT%H:%M:%S") == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "soon",
            "now+10min",
            "now+",
            "now+1month",
            "now+0s",
            "now tomorrow",
            "16",
            "4PM",
            "16:00PM",
        ),
        *("24:00", "8:5", "23:60", "2027-1-2", "2027-13-01", "13/01/27", "01/01/1999", "TOMORROW"),
        *("2027/01/20", "16:00:5", "00/01", "noon1"),
        *("now+9999999weeks", "now-9999999weeks", "0000-01-01", "0000-12-31"),
    ],
)
def test_other_texts_are_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(NotUnderstood, match="write now\\+2hours, 16:00, tomorrow"):
        begin_of(text, NOW)


def test_the_zone_is_that_of_now() -> None:
    now = NOW.astimezone(ZoneInfo("America/New_York"))
    assert begin_of("16:00", now) == datetime(2026, 11, 29, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "text", "expected"),
    [
        ("2026-10-24T23:30", "now+2hours", "2026-10-25T01:30"),
        ("2026-03-29T00:30", "now+2hours", "2026-03-29T02:30"),
        ("2026-03-29T00:30", "now+1day", "2026-03-30T00:30"),
        ("2026-10-25T01:30", "now+5minutes", "2026-10-25T01:35"),
        ("2026-10-25T01:00", "02:30", "2026-10-25T01:30"),
        ("2026-10-25T00:00", "02:30", "2026-10-25T00:30"),
        ("2026-10-25T01:30", "02:30", "2026-10-26T01:30"),
        ("2026-10-25T00:30", "02:30", "2026-10-25T01:30"),
        ("2026-10-25T01:45", "16:00", "2026-10-25T15:00"),
    ],
)
def test_a_clock_that_is_set_changes_no_hours(now: str, text: str, expected: str) -> None:
    """All times here are UTC; clocks in Berlin are set on 29 March and 25 October at 1:00.

    Planted: hours that are added to what the clock shows, a clock time that comes once a day.
    """
    at = datetime.fromisoformat(f"{now}+00:00").astimezone(ZoneInfo("Europe/Berlin"))
    assert begin_of(text, at).astimezone(UTC) == datetime.fromisoformat(f"{expected}+00:00")


def test_a_time_that_clocks_skip_is_told_as_they_show_it() -> None:
    """Planted: a time that no clock shows."""
    now = datetime(2026, 3, 29, 1, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert begin_of("02:30", now).strftime("%H:%M %z") == "03:30 +0200"


def sbatch(line: str, **changes: object) -> dict[str, object]:
    text = f"#!/bin/sh\n#SBATCH -G 1\n#SBATCH {line}\ntrue\n"
    return a_body(script=..., gpus=..., sbatch=text, **changes)


@pytest.mark.django_db
def test_a_begin_line_counts_in_the_organizations_time_zone_which_the_plan_names(
    company: Company,
) -> None:
    """Planted: UTC for everybody. Against: a line that wins over the request."""
    actor = an_actor(company.nlp, Role.RESEARCHER)
    policies = OrganizationPolicy.objects.filter(organization=company.organization)
    policies.update(time_zone="Europe/Berlin")
    request = read_job_request(sbatch("--begin=16:00"))
    found = preview_job(request, actor=actor, now=NOW)
    note = found.resolved.notes[1]
    assert (note.line, note.verdict.value, note.detail) == (
        3,
        "understood",
        "begin_at = 2026-11-29 16:00:00 in Europe/Berlin, your organization's time zone, "
        "2026-11-29 15:00:00 UTC",
    )
    assert (found.would_start_now, found.explanation["code"]) == (False, "begin_time")
    with transaction.atomic():
        job = submit_job_here(request, actor=actor, now=NOW)
    assert job.begin_at == datetime(2026, 11, 29, 15, tzinfo=UTC)
    given = read_job_request(sbatch("--begin=16:00", begin_at="2026-11-30T00:00:00Z"))
    assert (given.begin_hint, given.begin_at) == (None, datetime(2026, 11, 30, tzinfo=UTC))


@pytest.mark.django_db
def test_a_begin_time_too_far_ahead_is_a_refused_line_beside_all_others(company: Company) -> None:
    """Against: an error that hid what became of the other lines."""
    actor = an_actor(company.nlp, Role.RESEARCHER)
    request = read_job_request(sbatch("-b 2028-12-01"))
    told = (
        "begin_at = 2028-12-01 00:00:00 in UTC, your organization's time zone; it must be at most "
        "366 days ahead."
    )
    found = preview_job(request, actor=actor, now=NOW)
    assert [(note.line, note.verdict.value, note.detail) for note in found.resolved.notes] == [
        (2, "understood", "gpus = 1"),
        (3, "refused", told),
    ]
    assert found.fits is False
    with pytest.raises(InvalidRequest) as refusal, transaction.atomic():
        submit_job_here(request, actor=actor, now=NOW)
    assert [note["line"] for note in refusal.value.data["notes"]] == [2, 3]
    own = sbatch("-J x", begin_at="2028-12-01T00:00:00Z")
    with pytest.raises(InvalidRequest) as refusal:
        preview_job(read_job_request(own), actor=actor, now=NOW)
    assert [error.pointer for error in refusal.value.errors] == ["/begin_at"]
    assert [note["line"] for note in refusal.value.data["notes"]] == [2, 3]


@pytest.mark.django_db
def test_a_day_that_ends_after_the_calendar_in_the_organizations_zone_is_refused(
    company: Company,
) -> None:
    """Planted: an answer with 500."""
    actor = an_actor(company.nlp, Role.RESEARCHER)
    policies = OrganizationPolicy.objects.filter(organization=company.organization)
    policies.update(time_zone="America/New_York")
    request = read_job_request(sbatch("--begin=9999-12-31T23:00"))
    note = preview_job(request, actor=actor, now=NOW).resolved.notes[1]
    assert note.verdict.value == "refused"
    assert note.detail.startswith("'9999-12-31T23:00' is no time to begin; write now")
