"""A page of the list has exactly the visible jobs that meet its filter, whatever the way there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.db import connection
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from builders.job_builders import a_job, an_attempt
from builders.planner import rows_read
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_department,
    a_grant,
    a_pool,
    a_team,
    a_user,
)
from jobs.access import visible_jobs
from jobs.api.rendering import written
from jobs.models import Attempt, Job
from jobs.reading import listing
from jobs.reading.job_orders import ORDERS, Order, Position
from jobs.reading.listing import JobFilter, page_of_jobs
from tenants.access import Actor, actor_of
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

STATES = ["queued", "running", "failed", "succeeded"]
HOUR = timedelta(hours=1)


def ids(
    actor: Actor,
    wanted: JobFilter,
    *,
    order: str = "-submitted_at",
    after: Position | None = None,
    limit: int = 51,
) -> list[UUID]:
    """The ids of a page of the list."""
    found = page_of_jobs(actor, wanted, order=Order(order), after=after, limit=limit)
    return [one.job_id for one in found]


def key_of(job: Job, name: str) -> Any:
    """The key of a job in an order, in Python's words."""
    start = datetime(1970, 1, 1, tzinfo=UTC)
    return {
        "submitted_at": "",
        "started_at": job.started_at or start,
        "ended_at": job.ended_at or start,
        "gpus": job.mgpu,
        "name": job.name.upper(),
        "state": job.state,
        "team": job.team.path,
        "user": job.user.username,
    }[name]


def in_order(jobs: list[Job], order: str) -> list[Job]:
    """Jobs in an order of the list; texts as the database compares them."""
    name, is_descending = order.removeprefix("-"), order.startswith("-")
    newest_first = is_descending != (name in {"name", "state", "team", "user"})
    if name == "submitted_at":
        return sorted(jobs, key=lambda job: job.pk, reverse=is_descending)
    by_id = sorted(jobs, key=lambda job: job.pk, reverse=newest_first)
    return sorted(by_id, key=lambda job: key_of(job, name), reverse=is_descending)


def expected(actor: Actor, wanted: JobFilter, **page: Any) -> list[UUID]:
    """The same by the one scoped query, and Django's own filters, in Python's order."""
    jobs: QuerySet[Job] = visible_jobs(actor)
    if wanted.team is not None:
        jobs = jobs.filter(team__path__startswith=wanted.team.rstrip("/") + "/")
    holding = Attempt.objects.filter(job=OuterRef("pk"), released_at=None)
    conditions = {
        "states": lambda value: Q(state__in=value),
        "username": lambda value: Q(user__username=value),
        "pool": lambda value: Q(pool__name=value),
        "cluster": lambda value: (
            Q(
                Exists(
                    Attempt.objects.filter(
                        job=OuterRef("pk"), number=OuterRef("attempt_number"), cluster__name=value
                    )
                ),
                ~Q(state__in=["held", "queued"]),
            )
            | Q(cluster__name=value, state__in=["held", "queued"])
        ),
        "priority_class": lambda value: Q(priority_class__name=value),
        "type": lambda value: Q(type=value),
        "search": lambda value: Q(name__icontains=value) | Q(user__username__istartswith=value),
        "ended_from": lambda value: Q(ended_at__gte=value),
        "ended_before": lambda value: Q(ended_at__lt=value),
        "submitted_from": lambda value: Q(submitted_at__gte=value),
        "submitted_before": lambda value: Q(submitted_at__lt=value),
        "origin": lambda value: Q(origin=value),
        "usage_class": lambda value: Q(
            Exists(
                holding.filter(guaranteed_mgpu__lt=F("mgpu"))
                if value == "borrowed"
                else holding.filter(guaranteed_mgpu=F("mgpu"))
            )
        ),
    }
    for name, condition in conditions.items():
        value = getattr(wanted, name)
        if value is not None:
            jobs = jobs.filter(condition(value))
    order = page["order"]
    found = in_order(list(jobs.select_related("team", "user")), order)
    if page["after"] is not None:
        first = Job.objects.select_related("team", "user").get(pk=page["after"].job_id)
        # The job of the position need not meet the filter.
        all_of_them = in_order([*(job for job in found if job != first), first], order)
        found = all_of_them[all_of_them.index(first) + 1 :]
    return [job.pk for job in found[: page["limit"]]]


def populated(chance: random.Random) -> tuple[list[Actor], list[str], list[UUID]]:
    """Two companies with jobs of everybody everywhere; actors, paths, and the jobs' ids."""
    actors, paths, made = [], [], []
    root = a_user(None, "root")
    a_grant(root, Role.PLATFORM_ADMIN, None)
    for company in (a_company(), a_company("rival")):
        labs = a_department(company.organization, "labs")
        wing = a_department(labs, "wing")
        teams = [
            *(a_team(labs, f"lab-{number}") for number in range(10)),
            *(a_team(wing, f"wing-{number}") for number in range(2)),
            company.nlp,
            company.vision,
        ]
        # Departments, which take the most ways, come oftener.
        nodes = [company.organization, *[labs, wing, company.research] * 6, *teams]
        people = [a_user(company.organization, f"user-{number}") for number in range(6)]
        granted = [
            [(Role.ORGANIZATION_ADMIN, company.organization)],
            [(Role.TEAM_LEAD, teams[0])],
            [(Role.TEAM_LEAD, team) for team in teams[:3]],
            [(Role.DEPARTMENT_ADMIN, labs)],
            [(Role.DEPARTMENT_ADMIN, wing), (Role.RESEARCHER, teams[0])],
            [(Role.RESEARCHER, teams[1])],
        ]
        for person, grants in zip(people, granted, strict=True):
            for role, node in grants:
                a_grant(person, role, node)
        other_pool = a_pool(f"other-{company.organization.slug}")
        made += list(_jobs(chance, company, teams, people, other_pool))
        actors += [actor_of(person) for person in people]
        actors += [actor_of(people[1], ["quotas"]), actor_of(people[5], ["jobs"])]
        paths += [node.path for node in nodes]
    return [*actors, actor_of(root)], paths, made


def _jobs(
    chance: random.Random, company: Company, teams: list[Node], people: list[Any], pool: Any
) -> Iterator[UUID]:
    for number in range(40):
        state = chance.choice(STATES)
        job = a_job(
            company,
            chance.choice(people),
            team=chance.choice(teams),
            name=chance.choice(["Train_%", "train", "tune\\", "Ünï"]) + str(number),
            state=state,
            submitted_at=NOW + number * HOUR,
            started_at=None if state == "queued" else NOW + (number // 3) * HOUR,
            type=chance.choice(["training", "interactive"]),
            node_count=chance.choice([1, 1, 2]),
            cluster=company.cluster if state == "queued" and number % 3 == 0 else None,
            **({"pool": pool} if chance.random() < 0.2 else {}),
            **({"origin": "native", "script": ""} if state == "running" and number % 2 else {}),
        )
        if state == "running":
            an_attempt(job, cluster=company.cluster, guaranteed_mgpu=chance.choice([0, 400, 1_000]))
        yield job.pk


def a_filter(chance: random.Random, paths: list[str]) -> JobFilter:
    values: dict[str, list[Any]] = {
        "states": [{"queued"}, {"running", "failed"}],
        "team": paths,
        "username": ["user-0", "user-1", "user-5", "nobody"],
        "pool": ["h100", "other-rival", "none"],
        "search": ["train", "_", "%", "\\", "ünï", "zzz", "1", "User-", "user-2"],
        "cluster": ["local", "none"],
        "priority_class": ["normal", "none"],
        "type": ["training", "inference"],
        "ended_from": [NOW + 5 * HOUR],
        "ended_before": [NOW + 20 * HOUR],
        "submitted_from": [NOW + 10 * HOUR],
        "submitted_before": [NOW + 30 * HOUR],
        "usage_class": ["guaranteed", "borrowed"],
        "origin": ["native", "portal"],
    }
    picked = set(chance.sample(sorted(values), chance.choice([0, 0, 1, 1, 2, 3])))
    if chance.random() < 0.3:
        picked.add("team")
    return JobFilter(**{name: chance.choice(values[name]) for name in sorted(picked)})


def a_position(job_id: UUID, order: str) -> Position:
    """The position of a stored job in an order."""
    job = Job.objects.select_related("team", "user").get(pk=job_id)
    return Position(key_of(job, order.removeprefix("-")), job_id)


def test_the_end_of_an_id_finds_its_job() -> None:
    """Also the beginning, of 8 digits or more. Planted: beginnings of 7 digits.

    Against: the end compared without the scope (a rival's job), or with the first group.
    """
    company, rival = a_company(), a_company("rival")
    bob, eve = a_user(company.organization, "bob"), a_user(rival.organization, "eve")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    mine = a_job(company, bob, pk=UUID("01a1fd00-0000-7000-8000-00000000c518"), name="one")
    a_job(company, bob, pk=UUID("01a1c518-c518-7000-8000-000000000001"), name="two")
    named = a_job(company, bob, pk=UUID("01a1fd00-0000-7000-8000-000000000003"), name="c518-b")
    a_job(rival, eve, team=rival.nlp, pk=UUID("01a1fd00-0000-7000-8000-00000001c518"), name="x")
    for wanted, found in (
        ("c518", {mine.pk, named.pk}),
        ("C518", {mine.pk, named.pk}),
        ("00000000c518", {mine.pk}),
        ("518", {named.pk}),
        ("1c518", set()),
        ("01a1fd00", {mine.pk, named.pk}),
        ("01A1C518-c518-7", {UUID("01a1c518-c518-7000-8000-000000000001")}),
        ("01a1c518c", set()),
        ("01a1c51", set()),
    ):
        assert set(ids(actor_of(bob), JobFilter(search=wanted))) == found, wanted


@pytest.mark.parametrize("branches_max", [8, 1, 3])
def test_it_is_the_one_scoped_query(monkeypatch: pytest.MonkeyPatch, branches_max: int) -> None:
    """For every kind of actor, filter, order and cursor; most of the pages are not empty.

    Died of it: own jobs left out beside a team's; UNION ALL for UNION; the page's LIMIT in the
    branches only, and in the whole only; the path asked for taken for what may be seen; `_` of a
    name not escaped; a department's teams cut at `branches_max`; `after` left out of all branches
    but the last; own jobs without the token's scope; AND for OR in a department's teams.
    """
    monkeypatch.setattr(listing, "_BRANCHES_MAX", branches_max)
    chance = random.Random(branches_max)
    actors, paths, made = populated(chance)
    seen = tried = 0
    for _ in range(250):
        actor = chance.choice(actors)
        own = [path for path in paths if path.startswith(actor.organization_path or "")]
        wanted = a_filter(chance, own)
        order = chance.choice(["-submitted_at", *ORDERS])
        page = {
            "order": order,
            "limit": chance.choice([1, 5, 51]),
            "after": chance.choice([None, None, a_position(chance.choice(made), order)]),
        }
        found = ids(actor, wanted, **page)
        assert found == expected(actor, wanted, **page), (actor, wanted, page)
        seen += len(found)
        tried += bool(found)
    assert tried > 100
    assert seen > 500


@pytest.mark.usefixtures("statistics")
def test_a_page_of_a_team_and_ones_own_reads_no_job_of_others() -> None:
    """Two are read as the team's and two as their own, beside 600 that others have.

    So many, that the planner does care which index it takes, where it knows nothing else.

    Died of it: the user's condition written so that no index serves it.
    """
    company = a_company()
    lead, other = a_user(company.organization, "lead"), a_user(company.organization, "other")
    a_grant(lead, Role.TEAM_LEAD, company.nlp)
    a_grant(lead, Role.RESEARCHER, company.vision)
    mine = [a_job(company, other), a_job(company, lead), a_job(company, lead, team=company.vision)]
    foreign = a_job(company, other, team=company.vision)
    values = Job.objects.filter(pk=foreign.pk).values().get()
    Job.objects.bulk_create(Job(**values | {"id": uuid7()}) for _ in range(600))
    actor = actor_of(lead)
    with CaptureQueriesContext(connection) as queries:
        assert ids(actor, JobFilter()) == sorted((job.pk for job in mine), reverse=True)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {queries[-1]['sql']}")
        plan = cursor.fetchone()[0][0]["Plan"]
    assert rows_read(plan, "jobs_job") == 4


def test_a_filter_without_a_condition_is_no_filter() -> None:
    company = a_company()
    admin = a_user(company.organization, "admin")
    a_grant(admin, Role.ORGANIZATION_ADMIN, company.organization)
    job = a_job(company, admin)
    assert ids(actor_of(admin), JobFilter()) == [job.pk]
    assert ids(actor_of(admin), replace(JobFilter(), username="nobody")) == []


def test_times_are_written_in_utc_with_whole_seconds() -> None:
    body = {
        "utc": datetime(2026, 11, 21, 12, 0, 59, 999_999, UTC),
        "none": None,
        "id": UUID(int=7),
        "json": orjson.Fragment('[{"a": 1}]'),
    }
    assert orjson.dumps([written(body)]) == (
        b'[{"utc":"2026-11-21T12:00:59Z","none":null,'
        b'"id":"00000000-0000-0000-0000-000000000007","json":[{"a": 1}]}]'
    )
