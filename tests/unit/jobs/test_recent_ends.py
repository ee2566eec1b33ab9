"""What a lead reads of since yesterday: lost work, ended attempts, changes of quotas."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from billing.attempt_costs import PartCost
from billing.models import MeteredAttempt, UsageSegment
from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt, a_rate_card, at, terms_of
from builders.clocks import ClockAt
from builders.job_builders import a_job, an_attempt
from builders.planner import Owner, only_wanted_rows_are_looked_up, rows_read
from builders.portal_builders import Company, a_grant, a_priority_class, an_actor
from clusters.models import Cluster
from jobs.api import today as views
from jobs.models import Attempt, Job
from jobs.reading import recent_ends as module
from jobs.reading.part_costs import sum_of
from jobs.reading.recent_ends import RecentEnds, recent_ends
from primitives.clock import SystemClock
from primitives.errors import InvalidRequest, NotFound
from quotas.models import Quota, QuotaChange
from tenants.access import Actor, actor_of
from tenants.models import User
from tenants.roles import Role

if TYPE_CHECKING:
    from builders.jobs_world import World

pytestmark = pytest.mark.django_db

AFTER = {
    "guaranteed_mgpu": 8_000,
    "guaranteed_percent": None,
    "borrow_limit_mgpu": None,
    "lend_limit_mgpu": None,
    "weight": 2,
}
#: The hour that is asked for begins at `at(HOUR)`.
HOUR = 7_200
END = HOUR + 3_600
EURO = 10**9
COUNTED = ("jobs_job", "jobs_attempt", "billing_usagesegment")


def ran(
    company: Company,
    user: User,
    name: str,
    *,
    start: int,
    end: int | None,
    job: Job | None = None,
    number: int = 1,
    state: str = "succeeded",
    checkpoint: int | None = None,
    classes: Any = (),
    is_last: bool = True,
    **changes: Any,
) -> Job:
    """An attempt on 8 GPUs over [start, end), of a new job or of `job`, which ends with its last
    in `state`."""
    job = job or a_job(
        company,
        user,
        name=name,
        mgpu_per_node=8_000,
        priority_class=a_priority_class(company.organization),
    )
    metered = a_metered_attempt(
        job.team, start, end, user=user, job_id=job.pk, number=number, classes=classes
    )
    an_attempt(
        job,
        cluster=Cluster.objects.get(name="local"),
        number=number,
        id=metered.pk,
        state="running" if end is None else "ended",
        started_at=at(start),
        ended_at=None if end is None else at(end),
        checkpoint_at=None if checkpoint is None else at(checkpoint),
        **{"released_at": None if end is None else at(end)} | changes,
    )
    if end is not None and is_last:
        Job.objects.filter(pk=job.pk).update(state=state, ended_at=at(end))
    return job


def asked(actor: Actor, team: str | None = None) -> RecentEnds:
    return recent_ends(actor=actor, team=team, since=at(HOUR), now=at(END))


def wasted(found: RecentEnds) -> list[tuple[Any, ...]]:
    return [
        (row["name"], row["how"], row["attempts"], row["has_checkpoint"], row["lost_mgpu_s"])
        for row in found.waste
    ]


def test_lost_work_is_what_was_used_since_the_checkpoint(world: World) -> None:
    """Planted: the checkpoint is passed over."""
    company, bob = world.company, world.bob
    # 2 h on 8 GPUs, half of it borrowed in between: the class does not matter.
    failed = ran(
        company,
        bob,
        "failed",
        start=0,
        end=HOUR,
        state="failed",
        classes=[(600, 0), (1_200, 4_000)],
    )
    ran(company, bob, "saved", start=0, end=HOUR + 60, state="failed", checkpoint=HOUR)
    ran(company, bob, "slow", start=HOUR, end=HOUR + 10, state="timed_out")
    ran(company, bob, "fine", start=HOUR, end=HOUR + 101)
    ran(company, bob, "cancelled", start=HOUR, end=HOUR + 100, state="cancelled")
    again = ran(
        company,
        bob,
        "again",
        start=HOUR,
        end=HOUR + 20,
        is_last=False,
        outcome="stopped",
        stop_reason="preempted",
    )
    again = ran(
        company, bob, "", job=again, number=2, start=HOUR + 30, end=HOUR + 60, is_last=False,
        outcome="stopped", stop_reason="preempted",
    )  # fmt: skip
    ran(
        company, bob, "", job=again, number=3, start=HOUR + 70, end=HOUR + 75, is_last=False,
        outcome="node_failed",
    )  # fmt: skip
    ran(company, bob, "", job=again, number=4, start=HOUR + 80, end=None)
    ran(company, bob, "before", start=0, end=HOUR - 1, state="failed")
    ran(company, bob, "after", start=0, end=END, state="failed")

    found = asked(actor_of(world.alice))

    assert wasted(found) == [
        ("failed", "failed", 1, False, 8_000 * HOUR),
        ("saved", "failed", 1, True, 8_000 * 60),
        ("again", "preempted", 2, False, 8_000 * 50),
        ("slow", "timed_out", 1, False, 8_000 * 10),
        ("again", "node_lost", 1, False, 8_000 * 5),
    ]
    assert found.waste[0] == {
        "id": failed.pk,
        "name": "failed",
        "user": "bob",
        "team": "ai-company/research/nlp",
        "device": "gpu",
        "how": "failed",
        "attempts": 1,
        "has_checkpoint": False,
        "lost_mgpu_s": 8_000 * HOUR,
        "cost": None,
    }
    assert found.totals == [
        {
            "device": "gpu",
            "attempts": 8,
            "used_mgpu_s": 8_000 * (HOUR + HOUR + 60 + 10 + 201 + 50 + 5),
            "lost_mgpu_s": 8_000 * (HOUR + 60 + 10 + 50 + 5),
        }
    ]
    assert [(row["name"], row["how"], row["attempt"]) for row in found.ends] == [
        ("fine", "succeeded", 1),
        ("cancelled", "cancelled", 1),
        ("again", "node_lost", 3),
        ("saved", "failed", 1),
        ("again", "preempted", 2),
        ("again", "preempted", 1),
        ("slow", "timed_out", 1),
        ("failed", "failed", 1),
    ]


def costs(found: RecentEnds) -> dict[str, Any]:
    """The billed and the unbilled euros of each loss, and their mode."""
    return {
        row["name"]: (cost := row["cost"])
        and (cost["cost_nano"] // EURO, cost["unbilled_nano"] // EURO, cost["price_mode"])
        for row in found.waste
    }


def two_losses(world: World) -> None:
    """Bob lost 8 GPUs for half an hour of 2.5 hours, and dana 8 for 2 hours at the same time.

    Dana's were lost in two attempts. The last hour of bob's job and the last quarter of an hour of
    dana's are borrowed.
    """
    company = world.company
    ran(
        company, world.bob, "saved", start=0, end=HOUR + 1_800, state="failed",
        checkpoint=HOUR, classes=[(HOUR - 1_800, 0)],
    )  # fmt: skip
    again = ran(
        company, world.dana, "again", start=1_800, end=HOUR, is_last=False, outcome="stopped",
        stop_reason="preempted",
    )  # fmt: skip
    ran(
        company, world.dana, "", job=again, number=2, start=HOUR, end=HOUR + 1_800,
        classes=[(HOUR + 900, 0)], is_last=False, outcome="stopped", stop_reason="preempted",
    )  # fmt: skip


def test_a_loss_costs_what_its_lost_use_is_charged(world: World) -> None:
    """Half an hour of 8 GPUs at 1 EUR; 1.75 hours of 8 at 2 EUR and a quarter at 1 EUR.

    Against: the cost of the whole attempt; the cost in another attempt's time.
    """
    two_losses(world)
    a_rate_card(world.company.organization)
    expected = {"saved": (4, 0, "pay_per_use"), "again": (30, 0, "pay_per_use")}
    found = asked(actor_of(world.alice))
    assert costs(found) == expected
    # 1.5 hours of 8 GPUs at 2 EUR and an hour at 1 EUR.
    ends = {(row["name"], row["attempt"]): row["cost"]["cost_nano"] // EURO for row in found.ends}
    assert ends == {("saved", 1): 32, ("again", 1): 24, ("again", 2): 6}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("showback", {"saved": (0, 4, "showback"), "again": (0, 30, "showback")}),
        ("commitment", {"saved": (4, 0, "pay_per_use"), "again": (2, 28, "commitment")}),
    ],
)
def test_a_loss_that_is_not_billed_says_what_it_would_cost(
    world: World, mode: str, expected: dict[str, Any]
) -> None:
    """Against: showback as the cost; use that a commitment pays as showback."""
    two_losses(world)
    terms_of(a_rate_card(world.company.organization), mode)
    assert costs(asked(actor_of(world.alice))) == expected


def test_a_loss_costs_the_minimum_time_where_the_terms_have_one(world: World) -> None:
    """A minute on 8 GPUs at 2 EUR is billed as 3,600 s. Against: the use without its top-up."""
    ran(world.company, world.bob, "short", start=HOUR, end=HOUR + 60, state="failed")
    terms_of(a_rate_card(world.company.organization), "pay_per_use", minimum_s=3_600)
    found = asked(actor_of(world.alice))
    assert costs(found) == {"short": (16, 0, "pay_per_use")}
    assert [row["cost"]["cost_nano"] for row in found.ends] == [16 * EURO]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(1, 0, 0)], (1, 0, "pay_per_use")),
        ([(1, 0, 0), (0, 2, 2)], (1, 2, "showback")),
        ([(0, 2, 0)], (0, 2, "commitment")),
        ([(1, 2, 0), (0, 2, 2)], (1, 4, "mixed")),
    ],
)
def test_the_cost_of_several_parts_says_why_some_of_it_is_not_billed(
    parts: list[tuple[int, int, int]], expected: tuple[int, int, str]
) -> None:
    """Against: showback beside a billed part as paid by a commitment."""
    found = sum_of([PartCost(*part) for part in parts], "EUR")
    assert found == (*expected, "EUR")


def test_the_cost_of_a_loss_is_for_those_who_see_the_cost_of_the_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: no question for the right.

    Against: a cost of 0 without a rate card or without a price.
    """
    monkeypatch.setattr(views, "SystemClock", lambda: ClockAt(at(END)))
    two_losses(world)
    nothing = {"saved": None, "again": None}
    assert costs(asked(actor_of(world.alice))) == nothing

    a_rate_card(world.company.organization, start=END)
    assert costs(asked(actor_of(world.alice))) == nothing

    a_rate_card(world.company.organization, end=END)
    lead = an_actor(world.company.nlp, Role.TEAM_LEAD, "lead").user

    def shown(user: User, scope: str) -> dict[str, Any]:
        rows = by_token(user, [scope]).get("today").json()["waste"]
        return {row["name"]: row["cost"] for row in rows}

    assert shown(lead, "jobs") == nothing
    euros = {"unbilled_nano": 0, "price_mode": "pay_per_use", "currency": "EUR"}
    saved = {"cost_nano": 4 * EURO, **euros}
    assert shown(lead, "reports") == {"saved": saved, "again": {"cost_nano": 30 * EURO, **euros}}
    assert shown(world.bob, "jobs") == {"saved": saved}


def test_the_end_of_an_attempt_is_told_as_its_cluster_and_the_portal_know_it(
    world: World,
) -> None:
    """Planted: whatever did not end its job lost its node; the state of a job that was cancelled
    while it waited again; attempts that hold their GPUs still.
    """
    company, bob = world.company, world.bob
    kinds: dict[str, dict[str, Any]] = {
        "doubtful": {"outcome": "unknown"},
        "altered": {"outcome": "stopped", "stop_reason": "withdrawn"},
        "moved": {"outcome": "preempted"},
        "stopped": {"outcome": "unknown", "stop_reason": "preempted"},
        "broken": {"outcome": "node_failed"},
        "gone": {"outcome": "lost"},
    }
    for second, (name, changes) in enumerate(kinds.items(), 1):
        ran(company, bob, name, start=HOUR, end=HOUR + second, is_last=False, **changes)
    waited = ran(
        company, bob, "waited", start=HOUR, end=HOUR + 7, is_last=False, outcome="stopped",
        stop_reason="preempted",
    )  # fmt: skip
    Job.objects.filter(pk=waited.pk).update(state="cancelled", ended_at=at(HOUR + 9))
    ran(
        company, bob, "leaves", start=HOUR, end=HOUR + 80, is_last=False, outcome="failed",
        classes=[(HOUR + 60, 0)], released_at=None,
    )  # fmt: skip

    found = asked(actor_of(world.alice))

    expected = [
        ("waited", "preempted"),
        ("gone", "node_lost"),
        ("broken", "node_lost"),
        ("stopped", "preempted"),
        ("moved", "preempted"),
        ("altered", "withdrawn"),
        ("doubtful", "unknown"),
    ]
    assert [(row["name"], row["how"]) for row in found.ends] == expected
    assert [(row["name"], row["how"]) for row in found.waste] == expected[:-1]


def test_an_attempt_that_failed_at_once_is_listed_with_no_use(world: World) -> None:
    """Two failed within their first second, one before its start; a fourth attempt never started
    and its job queued again.

    Planted: only attempts that the meter counted.
    Against: attempts that never started and queued again.
    """
    company, bob = world.company, world.bob
    for second, (name, changes) in enumerate(
        {"at-once": {"started_at": at(HOUR + 1)}, "before-start": {"started_at": None}}.items(), 1
    ):
        job = a_job(company, bob, name=name, mgpu_per_node=8_000)
        attempt = {"ended_at": at(HOUR + second), "released_at": at(HOUR + second)}
        an_attempt(
            job, cluster=Cluster.objects.get(name="local"), number=1, state="ended",
            outcome="failed", **attempt | changes,
        )  # fmt: skip
        Job.objects.filter(pk=job.pk).update(
            state="failed", attempt_number=1, exit_code=127, ended_at=at(HOUR + second)
        )
    again = a_job(company, bob, name="again", mgpu_per_node=8_000)
    an_attempt(
        again, cluster=Cluster.objects.get(name="local"), number=1, state="ended",
        outcome="stopped", stop_reason="withdrawn", started_at=None, ended_at=at(HOUR + 3),
        released_at=at(HOUR + 3),
    )  # fmt: skip
    Job.objects.filter(pk=again.pk).update(attempt_number=1)

    found = asked(actor_of(world.alice))

    assert [
        (row["name"], row["how"], row["exit_code"], row["used_mgpu_s"]) for row in found.ends
    ] == [("before-start", "failed", 127, 0), ("at-once", "failed", 127, 0)]
    assert {row["cost"] for row in found.ends} == {None}
    assert found.waste == []
    assert found.totals == [{"device": "gpu", "attempts": 2, "used_mgpu_s": 0, "lost_mgpu_s": 0}]


def test_a_reader_reads_the_ends_of_their_own_jobs_alone_and_at_once(
    statistics: Owner, world: World
) -> None:
    """Two ended lately that a lead may see, one of them as their own, beside 600 of others and 600
    of the team that ended before.

    Planted: what ended is looked for first, and then whose it is.
    Against: a statement for each list.
    """
    company = world.company
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    ran(company, world.bob, "theirs", start=HOUR, end=HOUR + 10, state="failed")
    ran(company, lead.user, "own", start=HOUR, end=HOUR + 20, state="failed")
    foreign = ran(company, world.bob, "foreign", start=HOUR, end=HOUR + 30, state="failed")
    Job.objects.filter(pk=foreign.pk).update(team=company.inference)
    many_like(foreign)
    many_like(ran(company, world.bob, "old", start=0, end=60, state="failed"))
    only_wanted_rows_are_looked_up()
    with CaptureQueriesContext(connection) as queries:
        assert [row["name"] for row in asked(lead).ends] == ["own", "theirs"]
    (statement,) = (each["sql"] for each in queries if "jobs_attempt" in each["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")
        plan = cursor.fetchone()[0][0]["Plan"]
    # Two jobs are found as the team's and one of them as the reader's own, and then both are read.
    assert {table: rows_read(plan, table) for table in COUNTED} == {
        "jobs_job": 5,
        "jobs_attempt": 2,
        "billing_usagesegment": 2,
    }


def many_like(job: Job) -> None:
    """Store 600 more jobs, each with an attempt and what the meter counted of it."""
    (attempt,) = job.attempts.all()
    metered = MeteredAttempt.objects.get(pk=attempt.pk)
    (segment,) = metered.segments.all()
    ids = [(uuid7(), uuid7()) for _ in range(600)]
    values = values_of(job)
    Job.objects.bulk_create(Job(**values | {"id": pk}) for pk, _ in ids)
    values = values_of(attempt)
    Attempt.objects.bulk_create(Attempt(**values | {"id": pk, "job_id": of}) for of, pk in ids)
    values = values_of(metered)
    MeteredAttempt.objects.bulk_create(
        MeteredAttempt(**values | {"id": pk, "job_id": of}) for of, pk in ids
    )
    values = values_of(segment)
    del values["id"]
    UsageSegment.objects.bulk_create(UsageSegment(**values | {"attempt_id": pk}) for _, pk in ids)


def values_of(row: Model) -> dict[str, Any]:
    return type(row)._default_manager.filter(pk=row.pk).values().get()


def test_everybody_reads_of_the_jobs_that_they_may_see(world: World) -> None:
    """Planted: the jobs of all teams; one's own outside the team that is asked for."""
    company, bob, dana = world.company, world.bob, world.dana
    ran(company, bob, "bobs", start=HOUR, end=HOUR + 10, state="failed")
    ran(company, dana, "danas", start=HOUR, end=HOUR + 20, state="failed")
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    other = an_actor(company.inference, Role.TEAM_LEAD, "other")
    a_grant(bob, Role.RESEARCHER, company.inference)
    nlp = "ai-company/research/nlp"

    def names(actor: Actor, team: str | None = None) -> list[str]:
        found = asked(actor, team)
        listed = [row["name"] for row in found.waste]
        assert sorted(row["name"] for row in found.ends) == sorted(listed)
        assert sum(row["attempts"] for row in found.totals) == len(listed)
        return listed

    assert names(lead) == names(lead, nlp) == ["danas", "bobs"]
    assert names(actor_of(bob)) == names(actor_of(bob), nlp) == ["bobs"]
    assert names(actor_of(bob), "ai-company/production") == []
    assert names(other) == names(actor_of(world.charlie)) == []
    assert names(actor_of(world.alice), "ai-company/production") == []
    assert names(actor_of(world.alice), "ai-company/research") == ["danas", "bobs"]
    with pytest.raises(NotFound):
        asked(actor_of(world.charlie), nlp)


def test_changes_of_quotas_are_those_of_the_teams_whose_jobs_one_sees(world: World) -> None:
    """Planted: whoever sees the tree reads all its changes."""
    company = world.company
    ours = Quota.objects.filter(node__organization=company.organization).select_related("node")
    quotas = {quota.node.slug: quota for quota in ours}

    def change(slug: str, second: int, reason: str) -> None:
        QuotaChange.objects.create(
            quota=quotas[slug], at=at(second), actor=world.alice, after=AFTER, reason=reason
        )

    change("nlp", HOUR - 1, "too early")
    change("nlp", HOUR, "first")
    change("inference", HOUR + 1, "of others")
    change("nlp", END, "too late")
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")

    def reasons(actor: Actor, team: str | None = None) -> list[str]:
        return [each.reason for each in asked(actor, team).quota_changes]

    assert reasons(lead) == ["first"]
    assert reasons(actor_of(world.alice)) == ["of others", "first"]
    assert reasons(actor_of(world.alice), "ai-company/research") == ["first"]


def test_lists_have_a_bound_and_sums_have_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the sum of what is listed."""
    monkeypatch.setattr(module, "WASTE_MAX", 2)
    monkeypatch.setattr(module, "ENDS_MAX", 1)
    for number in range(1, 4):
        ran(world.company, world.bob, f"n{number}", start=HOUR, end=HOUR + number, state="failed")
    found = asked(actor_of(world.alice))
    assert [row["name"] for row in found.waste] == ["n3", "n2"]
    assert [row["name"] for row in found.ends] == ["n3"]
    assert [row["lost_mgpu_s"] for row in found.totals] == [8_000 * 6]


def test_it_reaches_back_a_week(world: World) -> None:
    actor, now = actor_of(world.alice), at(0)
    recent_ends(actor=actor, team=None, since=now - timedelta(days=7), now=now)
    for since in (now - timedelta(days=7, seconds=1), now + timedelta(seconds=1)):
        with pytest.raises(InvalidRequest):
            recent_ends(actor=actor, team=None, since=since, now=now)


def test_over_rest_it_is_of_the_last_day(world: World) -> None:
    (quota,) = Quota.objects.filter(node=world.company.nlp)
    yesterday = SystemClock().now() - timedelta(hours=23)
    for reason, moment in (("old", yesterday - timedelta(hours=2)), ("new", yesterday)):
        QuotaChange.objects.create(
            quota=quota, at=moment, actor=world.alice, after=AFTER, reason=reason
        )
    alice = by_token(world.alice)
    body = alice.get("today?team=nlp").json()
    assert body.keys() == {
        "team", "since", "until", "totals", "waste", "ends", "quota_changes"
    }  # fmt: skip
    assert (body["team"], body["totals"], body["waste"], body["ends"]) == (
        "ai-company/research/nlp",
        [],
        [],
        [],
    )
    assert [
        (change["reason"], change["node"], change["pool"], change["actor"])
        for change in body["quota_changes"]
    ] == [("new", "ai-company/research/nlp", "h100", "alice@ai-company")]
    assert alice.get("today?since=yesterday").status_code == 400
    assert alice.get("today?since=2020-01-01T00:00:00Z").status_code == 400
    assert alice.get("today?state=failed").status_code == 400
    assert by_token(world.charlie).get("today?team=ai-company/research/nlp").status_code == 404
