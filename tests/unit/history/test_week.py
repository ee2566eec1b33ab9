"""The week of a node: its figures equal those of the reports, and its leads get them by mail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from approvals.deciding import reject
from builders.api_callers import by_token
from builders.approval_builders import asked
from builders.billing_builders import a_metered_attempt, a_rate_card, at
from builders.job_builders import a_job, an_attempt
from builders.mail_server import MailServer, a_mail_server, body_of, html_body_of
from builders.notice_builders import a_webhook
from builders.portal_builders import Company, a_company, a_user, an_actor
from history.lead_notices import give_week_notices, ready_week
from history.week import figures_of, link_of, week_of
from jobs.models import Reclaim
from notices.mail_queue import compose_due_mails
from notices.mailing import send_next_mail
from notices.models import Notice, NoticeEvent
from notices.preferences import EventChoice, change_preferences
from notices.webhook_models import WebhookDelivery
from primitives.errors import InvalidRequest
from quotas.models import OrganizationPolicy, Quota
from tenants.access import Actor
from tenants.moving import move_node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NLP = "ai-company/research/nlp"
HOUR_S, DAY_S = 3_600, 86_400
#: The Monday of the week, and the next one at 08:00.
MONDAY = date(2026, 11, 2)
READY = datetime(2026, 11, 9, 8, tzinfo=UTC)
#: Second of the Tuesday of that week.
TUESDAY = 2 * DAY_S


@pytest.fixture
def company() -> Company:
    """Team nlp ran a job of 4 GPUs for 10 hours in the week, and one for an hour after it."""
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 2_000_000_000, "borrowed": 1_000_000_000})
    user = a_user(company.organization)
    for wait_s, start in ((90, TUESDAY), (1_200, TUESDAY + DAY_S), (5, 9 * DAY_S)):
        job = a_job(company, user, team=company.nlp, submitted_at=at(start - wait_s))
        a_metered_attempt(company.nlp, start, start + 5 * HOUR_S, job_id=job.pk, mgpu=4_000)
    return company


@pytest.fixture
def lead(company: Company) -> Actor:
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    lead.user.email = "lead@example.org"
    lead.user.save()
    return lead


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with a_mail_server(settings) as found:
        yield found


def mailed(server: MailServer, now: datetime) -> int:
    """Give, compose and send; return how many nodes gave notices."""
    count = give_week_notices(lambda: now)
    compose_due_mails(now)
    while send_next_mail(lambda: now):
        pass
    return count


def preempt(company: Company) -> None:
    """Preempt a job of nlp for one of vision, 2 hours after its last checkpoint."""
    user = a_user(company.organization)
    taker = a_job(company, user, team=company.vision)
    victim = a_job(company, user, team=company.nlp)
    reclaim = Reclaim.objects.create(
        job=taker,
        cluster=company.cluster,
        slots=[],
        created_at=at(TUESDAY),
        grace_until=at(TUESDAY + 300),
        closed_at=at(TUESDAY + 300),
    )
    an_attempt(
        victim,
        cluster=reclaim.cluster,
        state="ended",
        mgpu=4_000,
        reclaim=reclaim,
        stop_reason="preempted",
        notice_at=at(TUESDAY),
        grace_until=at(TUESDAY + 300),
        started_at=at(TUESDAY - 2 * HOUR_S),
        ended_at=at(TUESDAY),
        released_at=at(TUESDAY),
    )


def test_the_figures_equal_those_of_the_reports(company: Company, lead: Actor) -> None:
    """Against: the week ends a day early; idle time with lent GPUs."""
    preempt(company)
    client = by_token(lead.user)
    week = client.get(f"history/week?node={NLP}&start=2026-11-02").json()
    (pool,) = week["pools"]
    query = f"node={NLP}&pool=h100&start=2026-11-02&end=2026-11-09"
    use = client.get(f"history/use?{query}").json()["series"]["sums"]
    waits = client.get(f"history/waits?{query}").json()["totals"]
    lost = client.get(f"history/preemptions?{query}").json()
    report = client.get(f"reports/chargeback?by=pool&{query}").json()
    used = sum(use[f"{each}_mgpu_s"] for each in ("guaranteed", "borrowed", "unpaid", "fault"))
    assert pool["used_mgpu_s"] == used == 40 * HOUR_S * 1_000
    idle = use["guarantee_mgpu_s"] - use["within_mgpu_s"] - use["lent_mgpu_s"]
    assert pool["idle_mgpu_s"] == idle
    assert pool["waits"] == waits
    assert [(each["jobs"], each["p50_s"], each["p95_s"]) for each in waits] == [(2, 90, 1_200)]
    assert (pool["preemptions"], pool["lost_mgpu_s"]) == (1, lost["lost_mgpu_s"])
    assert pool["cost_nano"] == report["totals"]["cost_nano"] == 80 * 10**9
    assert pool["currency"] == "EUR"


def test_each_figure_has_the_page_of_its_week(company: Company, lead: Actor) -> None:
    """Against: a link without its end; a link to the running week."""
    week = week_of(NLP, start=MONDAY, actor=lead, now=READY)
    history = f"/tree/{company.nlp.pk}/history?pool=h100&from=2026-11-02&to=2026-11-09"
    jobs = "/chargeback/jobs?node=ai-company%2Fresearch%2Fnlp&pool=h100"
    assert [(each.title, each.value, each.link) for each in figures_of(week)] == [
        ("Used, h100", "40.000 GPU-hours", history),
        ("Waited, h100, guaranteed (p50 of 2 jobs)", "1m30s", history),
        ("Waited, h100, guaranteed (p95 of 2 jobs)", "20m", history),
        ("Idle guarantee, h100", "1,304.000 GPU-hours", history),
        ("Lost work, h100 (0 preemptions)", "0.000 GPU-hours", history),
        ("Cost, h100", "80.00 EUR", f"{jobs}&start=2026-11-02&end=2026-11-09"),
        (
            "Rejected requests",
            "0",
            "/requests?view=decided&scope=ai-company%2Fresearch%2Fnlp&status=rejected"
            "&since=2026-11-02T00%3A00%3A00Z&until=2026-11-09T00%3A00%3A00Z",
        ),
    ]
    assert link_of(week) == f"/tree/{company.nlp.pk}/history?from=2026-11-02&to=2026-11-09"


def test_rejected_requests_count_in_the_week_of_their_decision(company: Company) -> None:
    """Against: all refused requests count. The list of the link has the same requests."""
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN, "admin")
    for decided in (READY - timedelta(days=1), READY + timedelta(days=1)):
        request = asked(lead)
        reject(request.pk, note="No GPUs are free.", actor=admin, now=decided)
        request.refresh_from_db()
    week = week_of(NLP, start=MONDAY, actor=lead, now=READY + timedelta(days=7))
    assert week.rejected_requests == 1
    found = by_token(lead.user).get(
        f"requests?view=decided&status=rejected&node={NLP}"
        "&decided_since=2026-11-02T00:00:00Z&decided_until=2026-11-09T00:00:00Z"
    )
    assert len(found.json()["items"]) == 1


def test_a_week_begins_on_a_monday(company: Company, lead: Actor) -> None:
    """By default it is the last whole week."""
    with pytest.raises(InvalidRequest, match="begins on a Monday"):
        week_of(NLP, start=date(2026, 11, 3), actor=lead, now=READY)
    assert week_of(NLP, actor=lead, now=READY - timedelta(hours=9)).start == date(2026, 10, 26)
    assert week_of(NLP, actor=lead, now=READY).start == MONDAY


def test_a_researcher_may_not_see_the_figures(company: Company) -> None:
    """They have costs. Against: the right to see the tree is enough."""
    found = by_token(an_actor(company.nlp, Role.RESEARCHER).user)
    assert found.get(f"history/week?node={NLP}").status_code == 403


@pytest.mark.parametrize(
    ("now", "week"),
    [
        (datetime(2026, 11, 9, 6, 59, 59, tzinfo=UTC), None),
        (datetime(2026, 11, 9, 7, 0, tzinfo=UTC), MONDAY),
        (datetime(2026, 11, 11, 6, 59, 59, tzinfo=UTC), MONDAY),
        (datetime(2026, 11, 11, 7, 0, tzinfo=UTC), None),
        (datetime(2026, 11, 15, 23, 30, tzinfo=UTC), None),
    ],
)
def test_the_week_is_ready_on_monday_at_eight(now: datetime, week: date | None) -> None:
    """In the zone of the organization, and two days long for a portal that was down.

    Against: eight o'clock of UTC.
    """
    assert ready_week(now, ZoneInfo("Europe/Berlin")) == week


def test_a_lead_gets_the_week_once_as_text_and_html(
    company: Company, lead: Actor, server: MailServer
) -> None:
    """Each number is a link. A later timer of the same week gives nothing.

    Against: a key without the week; a mail without HTML.
    """
    an_actor(company.nlp, Role.RESEARCHER, "bob")
    assert mailed(server, READY - timedelta(minutes=1)) == 0
    assert mailed(server, READY) == 1
    assert mailed(server, READY + timedelta(hours=1)) == 0
    (message,) = server.accepted
    sentence = f"{NLP} used 40.000 GPU-hours in the week of 2026-11-02 to 2026-11-08."
    assert (message["To"], message["Subject"]) == ("lead@example.org", sentence)
    site = "https://tidegate.example.org"
    days = "from=2026-11-02&to=2026-11-09"
    page = f"{site}/tree/{company.nlp.pk}/history?pool=h100&{days}"
    assert f"Used, h100: 40.000 GPU-hours\n{page}\n" in body_of(message)
    row = f'<a href="{page.replace("&", "&amp;")}">40.000 GPU-hours</a>'
    assert row in html_body_of(message)
    assert html_body_of(message).count("<tr>") == 7
    assert mailed(server, READY + timedelta(days=7)) == 1
    assert Notice.objects.filter(user=lead.user, event="week_summary").count() == 2


def test_the_week_follows_the_zone_of_the_organization(
    company: Company, lead: Actor, server: MailServer
) -> None:
    """In Tokyo, Monday 08:00 is Sunday 23:00 UTC."""
    OrganizationPolicy.objects.filter(organization=company.organization).update(
        time_zone="Asia/Tokyo"
    )
    assert mailed(server, READY - timedelta(hours=9, seconds=1)) == 0
    assert mailed(server, READY - timedelta(hours=9)) == 1


def test_a_lead_may_choose_no_mail(company: Company, lead: Actor, server: MailServer) -> None:
    """The notice is in the portal all the same, with its figures."""
    choice = EventChoice(NoticeEvent.WEEK_SUMMARY, mail=False)
    change_preferences({}, [choice], actor=lead, if_version=1, now=READY)
    assert mailed(server, READY) == 1
    assert server.accepted == []
    found = by_token(lead.user).get("notices?event=week_summary").json()
    assert found["items"][0]["figures"][0]["title"] == "Used, h100"


def test_a_channel_of_the_team_gets_the_week(company: Company, lead: Actor) -> None:
    """Webhooks of the node get it once."""
    a_webhook(node=company.nlp, events=["week_summary"])
    for now in (READY, READY + timedelta(hours=1)):
        give_week_notices(lambda now=now: now)
    assert WebhookDelivery.objects.get().data["sentence"].startswith(f"{NLP} used 40.000")


def test_a_node_that_was_moved_keeps_no_other_from_its_week(company: Company, lead: Actor) -> None:
    """Against: an error of one node that ends the run. Its new path was not there in the week."""
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "admin")
    an_actor(company.vision, Role.TEAM_LEAD, "other")
    # Its guarantee moves with it.
    Quota.objects.filter(node=company.research).update(guaranteed_mgpu=8_000)
    Quota.objects.filter(node=company.production).update(guaranteed_mgpu=24_000)
    move_node(actor=admin, node=company.nlp, parent=company.production, now=READY)
    later = READY + timedelta(minutes=5)
    assert give_week_notices(lambda: later) == 1
    notices = Notice.objects.filter(event=NoticeEvent.WEEK_SUMMARY)
    assert [notice.user.username for notice in notices] == ["other"]
