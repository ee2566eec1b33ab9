"""Recipients of notices of quotas, credits, budgets, statements, requests and clusters."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adjustments.adjusting import approve_adjustment, ask_for_adjustment, reject_adjustment
from adjustments.disputes import decline_dispute, open_dispute
from bank.models import CreditBank
from bank.notices import give_notices as give_credit_notices
from bank.settling import settle_due
from bank.transfers import expire_transfers, reject_transfer
from budgets.evaluation import evaluate
from builders.adjustment_builders import a_charged_attempt, a_finance_person, asked, priced
from builders.api_callers import FAR_AHEAD
from builders.billing_builders import a_metered_attempt, a_rate_card, at
from builders.budget_builders import a_budget
from builders.credit_builders import a_pending_transfer
from builders.notice_builders import a_webhook, told, told_about
from builders.period_builders import DUE, close
from builders.portal_builders import NOW, Company, a_company, an_actor
from clusters.models import Cluster
from notices.models import Notice, NoticeEvent
from notices.second_person import Request, tell_deciders
from notices.webhook_models import WebhookDelivery
from periods.statements import Unit, issue_statements
from quotas.administration import QuotaEdit, change_quota
from quotas.models import Quota
from quotas.planned_changes import apply_planned, cancel_planned, draft_change
from quotas.planned_reading import etag_of_planned
from quotas.quota_notices import give_cluster_notices
from tenants.models import User
from tenants.roles import Permission, Role

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture
def company() -> Company:
    return a_company()


def test_the_lead_is_told_of_a_changed_quota(company: Company) -> None:
    """Planted: the person who changed it is told, too."""
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN, "admin")
    an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    quota = Quota.objects.get(node=company.nlp)
    for gpus, actor in ((4, admin), (3, admin)):
        edit = QuotaEdit(guaranteed_mgpu=gpus * 1_000)
        change_quota(
            quota.pk,
            edit,
            actor=actor,
            reason="conference",
            if_version=Quota.objects.get(pk=quota.pk).version,
            now=NOW,
        )
    words = "The quota of ai-company/research/nlp in pool h100 changed from {} GPUs guaranteed "
    assert [sentence for _, sentence in told(Notice.objects.earliest("pk").user)] == [
        words.format("8 to 4") + "(conference)",
        words.format("4 to 3") + "(conference)",
    ]
    assert set(told_about(NoticeEvent.QUOTA_CHANGED)) == {"lead"}


def test_a_planned_change_waits_for_the_administrator_above(company: Company) -> None:
    """The lead may not raise the guarantee. The decision marks the notice as read.

    Planted: it stays unread. Against: the author is told of the own cancellation.
    """
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN, "admin")
    an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")
    edits = [(Quota.objects.get(node=company.nlp).pk, QuotaEdit(guaranteed_mgpu=4_000))]
    terms = {"reason": "conference", "apply_at": None, "revert_after_s": None}
    planned = draft_change(edits, actor=lead, now=NOW, **terms)  # type: ignore[arg-type]
    called = "The planned quota change of ai-company/research/nlp (conference)"
    assert told_about(NoticeEvent.DECISION_WAITING) == {"admin": f"{called} waits for a decision."}
    waiting = Notice.objects.get()
    assert (waiting.deadline, waiting.link) == (
        planned.expires_at,
        f"/quota-changes/{planned.pk}",
    )
    apply_planned(planned.pk, if_match=etag_of_planned(planned), actor=admin, now=NOW)
    assert told_about(NoticeEvent.REQUEST_DECIDED) == {"lead": f"{called} was applied."}
    waiting.refresh_from_db()
    assert waiting.read_at == NOW
    own = draft_change(edits, actor=lead, now=NOW, **terms)  # type: ignore[arg-type]
    cancel_planned(own.pk, actor=lead, now=NOW)
    assert not Notice.objects.filter(subject_id=str(own.pk), event="request_decided").exists()


def test_a_change_that_its_author_may_apply_waits_for_nobody(company: Company) -> None:
    """Planted: everybody's draft asks."""
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN, "admin")
    an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")
    edits = [(Quota.objects.get(node=company.nlp).pk, QuotaEdit(guaranteed_mgpu=4_000))]
    draft_change(edits, reason="x", apply_at=None, revert_after_s=None, actor=admin, now=NOW)
    assert told_about(NoticeEvent.DECISION_WAITING) == {}


def test_platform_administrators_decide_where_nobody_else_may(company: Company) -> None:
    """Against: a request that nobody hears of."""
    root = an_actor(None, Role.PLATFORM_ADMIN, "root")
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    request = Request(
        "adjustment", company.nlp.pk, "It", "/adjustments", lead.user.pk, company.nlp.path
    )
    tell_deciders(request, Permission.MANAGE_PRICES, company.nlp.path, at=NOW, deadline=None)
    assert told(root.user) == [("decision_waiting", "It waits for a decision.")]


def test_an_adjustment_waits_for_another_finance_person(company: Company) -> None:
    """An adjustment up to the threshold waits for nobody. Planted: the asker is told to decide."""
    priced(company)
    fay, flo = a_finance_person(company, "fay"), a_finance_person(company, "flo")
    ask_for_adjustment(asked(company, 1), actor=fay, now=NOW)
    assert not Notice.objects.exists()
    first = ask_for_adjustment(asked(company, 2_000), actor=fay, now=NOW)
    second = ask_for_adjustment(asked(company, -3_000), actor=fay, now=NOW)
    of_nlp = "of ai-company/research/nlp"
    assert told(flo.user) == [
        (
            "decision_waiting",
            f"The adjustment about {amount} EUR {of_nlp} waits for a decision.",
        )
        for amount in ("2,000.00", "-3,000.00")
    ]
    approve_adjustment(first.pk, note="", actor=flo, now=NOW)
    reject_adjustment(second.pk, note="Too much.", actor=flo, now=NOW)
    assert told(fay.user) == [
        ("request_decided", f"The adjustment about 2,000.00 EUR {of_nlp} was approved."),
        (
            "request_decided",
            f"The adjustment about -3,000.00 EUR {of_nlp} was rejected: Too much.",
        ),
    ]
    assert not Notice.objects.filter(event="decision_waiting", read_at=None).exists()


def test_a_dispute_waits_for_finance(company: Company) -> None:
    priced(company)
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    fay = a_finance_person(company, "fay")
    dispute = open_dispute(a_charged_attempt(company).pk, "wrong", actor=lead, now=NOW)
    called = "The dispute about 48.00 EUR of ai-company/research/nlp"
    assert told(fay.user) == [("decision_waiting", f"{called} waits for a decision.")]
    decline_dispute(dispute.pk, note="It ran.", actor=fay, now=NOW)
    assert told(lead.user) == [("request_decided", f"{called} was declined: It ran.")]


def test_the_requester_of_a_transfer_is_told(company: Company) -> None:
    """Planted: an expiry tells nobody."""
    CreditBank.objects.create(organization=company.organization, is_on=True, switched_at=NOW)
    asker = an_actor(company.research, Role.DEPARTMENT_ADMIN, "asker")
    a_pending_transfer(company, asker.user)
    assert expire_transfers(FAR_AHEAD + MINUTE) == 1
    called = (
        "The transfer of 0.0 GPU-hours of credits from ai-company/research/nlp to "
        "ai-company/production/inference"
    )
    assert told(asker.user) == [("request_decided", f"{called} has expired.")]


def test_the_requester_of_a_rejected_transfer_reads_why(company: Company) -> None:
    CreditBank.objects.create(organization=company.organization, is_on=True, switched_at=NOW)
    asker = an_actor(company.research, Role.DEPARTMENT_ADMIN, "asker")
    decider = an_actor(company.production, Role.DEPARTMENT_ADMIN, "decider")
    transfer = a_pending_transfer(company, asker.user)
    reject_transfer(transfer.pk, note="We are full.", actor=decider, now=NOW)
    ((event, sentence),) = told(asker.user)
    assert event == "request_decided"
    assert sentence.endswith("was rejected: We are full.")
    assert told(decider.user) == []


def test_a_teams_lead_is_told_of_credits_that_expire(company: Company) -> None:
    """30, 7 and 1 days before, once each. vision has no lead, so its department is told."""
    CreditBank.objects.create(organization=company.organization, is_on=True, switched_at=at(0))
    a_metered_attempt(company.nlp, 0, 3_600, pool=company.pool, mgpu=32_000)
    settle_due(at(3_660))
    lead = an_actor(company.inference, Role.TEAM_LEAD, "lead")
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN, "admin")
    expiry = at(0).replace(year=2027, month=2)
    for days in (30, 30, 7, 1):
        give_credit_notices(expiry - timedelta(days=days))
    words = "{} GPU-hours of credits of {} in pool h100 expire within {}."
    for actor, hours, team in (
        (lead, "16.0", "ai-company/production/inference"),
        (admin, "8.0", "ai-company/research/vision"),
    ):
        assert told(actor.user) == [
            ("credits_expiring", words.format(hours, team, when))
            for when in ("30 days", "7 days", "1 day")
        ]
    assert set(Notice.objects.values_list("deadline", flat=True)) == {expiry}


def test_a_budget_tells_the_lead_and_its_user(company: Company) -> None:
    """Each percentage once in a window. Planted: the user of a personal budget is left out."""
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    bob = an_actor(company.nlp, Role.RESEARCHER, "bob")
    now = at(19 * 86_400)
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=8_000, pool=company.pool, user=bob.user)
    a_budget(company.nlp, 15, name="team")
    a_budget(company.nlp, 15, name="bob", user=bob.user)
    a_webhook(node=company.nlp, events=["budget_alert"])
    evaluate(company.organization.pk, now)
    evaluate(company.organization.pk, now + MINUTE)
    words = "The budget {} of ai-company/research/nlp has reached 50 % of its limit."
    assert sorted(told(lead.user)) == [
        ("budget_alert", words.format("bob")),
        ("budget_alert", words.format("team")),
    ]
    assert told(bob.user) == [("budget_alert", words.format("bob"))]
    # The channel of the team does not tell of a person's budget.
    assert WebhookDelivery.objects.get().data["sentence"] == words.format("team")


def test_a_budget_tells_no_deactivated_user_and_no_service_account(company: Company) -> None:
    """Planted: the user of a personal budget is told, whoever it is."""
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    gone, robot = (an_actor(company.nlp, Role.RESEARCHER, name) for name in ("gone", "robot"))
    for actor in (gone, robot):
        a_metered_attempt(company.nlp, 0, 3_600, mgpu=8_000, pool=company.pool, user=actor.user)
        a_budget(company.nlp, 15, name=actor.user.username, user=actor.user)
    User.objects.filter(pk=gone.user.pk).update(is_active=False)
    User.objects.filter(pk=robot.user.pk).update(kind="service")
    evaluate(company.organization.pk, at(19 * 86_400))
    assert (told(gone.user), told(robot.user), len(told(lead.user))) == ([], [], 2)


def test_statements_are_told_to_the_others_of_finance(company: Company) -> None:
    """All statements of an issue give a single notice. Planted: one for each."""
    a_rate_card(company.organization)
    fiona = an_actor(company.organization, Role.FINANCE, "fiona")
    flo = an_actor(company.organization, Role.FINANCE, "flo")
    a_metered_attempt(company.nlp)
    a_metered_attempt(company.inference, mgpu=3_000)
    close(company, fiona, "2026-11", "known")
    issue_statements(company.organization.pk, "2026-11", Unit.DEPARTMENT, actor=fiona, now=DUE)
    assert told(flo.user) == [
        ("statement_ready", "ai-company has 2 statements of 2026-11 over 22.00 EUR.")
    ]
    assert told(fiona.user) == []


def test_platform_administrators_are_told_of_a_silent_cluster(company: Company) -> None:
    """Once for each silence of five minutes. Planted: disabled clusters, too."""
    root = an_actor(None, Role.PLATFORM_ADMIN, "root")
    Cluster.objects.create(name="off", kind="local", seen_at=NOW, is_enabled=False)
    given = [
        give_cluster_notices(NOW + 5 * MINUTE + wait)
        for wait in (timedelta(0), timedelta(seconds=1), MINUTE)
    ]
    assert given == [0, 1, 0]
    assert told(root.user) == [
        ("cluster_stale", "The cluster local has not answered since 2026-11-21 12:00 UTC.")
    ]
    company.cluster.seen_at = NOW + 6 * MINUTE
    company.cluster.save()
    assert give_cluster_notices(NOW + 12 * MINUTE) == 1
