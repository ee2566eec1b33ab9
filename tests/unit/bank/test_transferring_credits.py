"""Transfers of credits: rights, amounts, lots, approval, and what the database refuses (R-96)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from bank.models import CreditBank, CreditLot, CreditPool, CreditTransfer
from bank.settling import settle_due
from bank.statements import credits_in, statement_of
from bank.transfers import (
    NewCredits,
    approve_transfer,
    expire_transfers,
    may_approve,
    reject_transfer,
    transfer_credits,
)
from builders.billing_builders import a_metered_attempt, at
from builders.portal_builders import Company, a_company, a_quota, a_team, an_actor
from jobs.arbitration.snapshots import load_snapshot
from ledger.accounts import accounts_of
from ledger.transfers import void_expired
from primitives.errors import Conflict, Forbidden, InvalidRequest
from quotas.models import Quota
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

GPU_HOUR = 3_600 * 1_000_000
NOW: datetime = at(3_660)


@pytest.fixture
def company() -> Company:
    """nlp borrowed 24 GPUs for an hour: vision lent 8 and inference 16 GPU-hours."""
    company = a_company()
    CreditBank.objects.create(organization=company.organization, is_on=True, switched_at=at(0))
    a_metered_attempt(company.nlp, 0, 3_600, pool=company.pool, mgpu=32_000)
    assert settle_due(NOW) == 4
    return company


@pytest.fixture
def ann(company: Company) -> Actor:
    """Administers research, where nlp and vision are."""
    return an_actor(company.research, Role.DEPARTMENT_ADMIN, "ann")


@pytest.fixture
def pam(company: Company) -> Actor:
    """Administers production, where inference is."""
    return an_actor(company.production, Role.DEPARTMENT_ADMIN, "pam")


def asked(company: Company, sender: Node, recipient: Node, hours: int) -> NewCredits:
    return NewCredits(sender, recipient, company.pool, hours * GPU_HOUR, "for the deadline")


def hours(company: Company) -> dict[str, int]:
    """The balances in GPU-hours. With the common account they sum to 0."""
    found = credits_in(company.organization, company.pool)
    assert sum(one.balance_ugpu_s for one in found.teams) + found.pool_ugpu_s == 0
    return {one.team.slug: one.balance_ugpu_s // GPU_HOUR for one in found.teams}


def lots(company: Company) -> dict[str, list[int]]:
    """The unspent earnings of each team in GPU-hours, the first to expire first."""
    found: dict[str, list[int]] = {}
    for lot in CreditLot.objects.select_related("team").order_by("expires_at"):
        found.setdefault(lot.team.slug, []).append(lot.amount // GPU_HOUR)
    return found


def a_new_team(company: Company) -> Node:
    """A team of research without credits. It gets 2 of the GPUs that nlp is guaranteed."""
    speech = a_team(company.research, "speech")
    Quota.objects.filter(node=company.nlp).update(guaranteed_mgpu=6_000)
    a_quota(speech, company.pool, 2)
    return speech


def test_a_department_admin_transfers_inside_the_department_at_once(
    company: Company, ann: Actor
) -> None:
    """Against: no audit event; an epoch that stays, so that the arbiter never learns of it."""
    before = CreditPool.objects.get().epoch
    given = transfer_credits(asked(company, company.vision, company.nlp, 5), actor=ann, now=NOW)
    assert (given.status, given.decided_by_id) == ("done", None)
    assert hours(company) == {"inference": 16, "vision": 3, "nlp": -19}
    assert lots(company) == {"inference": [16], "vision": [3]}
    assert CreditPool.objects.get().epoch == before + 1
    event = AuditEvent.objects.get(action="credit_transfer.done")
    assert (event.actor, event.node_path) == ("ann@ai-company", company.vision.path)
    assert event.detail["amount_ugpu_s"] == 5 * GPU_HOUR


def test_both_statements_have_a_line(company: Company, ann: Actor) -> None:
    transfer_credits(asked(company, company.vision, company.nlp, 5), actor=ann, now=NOW)
    lines = {
        team.slug: [
            (line.kind, line.other, line.amount_ugpu_s // GPU_HOUR)
            for line in statement_of(team, company.pool, 2026, 11).lines
            if line.kind == "transferred"
        ]
        for team in (company.vision, company.nlp)
    }
    assert lines == {
        "vision": [("transferred", "ai-company/research/nlp", -5)],
        "nlp": [("transferred", "ai-company/research/vision", 5)],
    }


def test_lots_keep_their_expiry_and_the_oldest_move_first(company: Company, ann: Actor) -> None:
    """vision has lots of two days. A new team of research has a guarantee but no debt.

    Against: the newest first; one new lot with an expiry of its own.
    """
    a_metered_attempt(company.nlp, 90_000, 93_600, pool=company.pool, mgpu=32_000)
    settle_due(at(86_400))
    settle_due(at(93_660))
    speech = a_new_team(company)
    first, second = CreditLot.objects.filter(team=company.vision).order_by("expires_at")
    amount = first.amount + GPU_HOUR
    new = NewCredits(company.vision, speech, company.pool, amount, "a start")
    transfer_credits(new, actor=ann, now=at(93_660))
    moved = CreditLot.objects.filter(team=speech).order_by("expires_at")
    assert [(lot.expires_at, lot.amount) for lot in moved] == [
        (first.expires_at, first.amount),
        (second.expires_at, GPU_HOUR),
    ]
    (left,) = CreditLot.objects.filter(team=company.vision)
    assert (left.expires_at, left.amount) == (second.expires_at, second.amount - GPU_HOUR)


@pytest.mark.parametrize(
    ("sender", "hours_asked", "sentence"),
    [
        ("vision", 9, "ai-company/research/vision can transfer at most 8.0 GPU-hours"),
        ("nlp", 1, "ai-company/research/nlp can transfer at most 0.0 GPU-hours"),
    ],
)
def test_only_credits_above_0_can_be_transferred(
    company: Company, ann: Actor, sender: str, hours_asked: int, sentence: str
) -> None:
    """nlp has debts, far above its floor. Against: down to the floor."""
    pair = (company.vision, company.nlp) if sender == "vision" else (company.nlp, company.vision)
    with pytest.raises(Conflict, match=sentence):
        transfer_credits(asked(company, *pair, hours_asked), actor=ann, now=NOW)
    assert hours(company) == {"inference": 16, "vision": 8, "nlp": -24}


def test_the_cap_of_the_recipient_holds(company: Company, ann: Actor) -> None:
    """With a cap of 3,600 s vision may have 8 GPU-hours, and has them. Against: no cap."""
    speech = a_new_team(company)
    CreditBank.objects.update(cap_s=3_600)
    with pytest.raises(Conflict, match=r"speech can receive at most 2\.0 GPU-hours.* cap is 2\.0"):
        transfer_credits(asked(company, company.vision, speech, 3), actor=ann, now=NOW)
    transfer_credits(asked(company, company.vision, speech, 2), actor=ann, now=NOW)
    assert lots(company)["speech"] == [2]


def test_across_departments_the_credits_wait_for_a_second_person(
    company: Company, ann: Actor, pam: Actor
) -> None:
    """Pending credits cannot be transferred twice, nor do they order the team.

    Against: pending credits that are still transferable; a balance for the arbiter without them.
    """
    transfer = transfer_credits(
        asked(company, company.vision, company.inference, 6), actor=ann, now=NOW
    )
    assert (transfer.status, transfer.expires_at) == ("pending", NOW + timedelta(days=7))
    assert hours(company) == {"inference": 16, "vision": 8, "nlp": -24}
    with pytest.raises(Conflict, match=r"at most 2\.0 GPU-hours"):
        transfer_credits(asked(company, company.vision, company.nlp, 3), actor=ann, now=NOW)
    ordered = {one.team: one.credits for one in load_snapshot(NOW).balances}
    assert ordered[str(company.vision.pk)] == 2 * GPU_HOUR
    done = approve_transfer(transfer.pk, note="welcome", actor=pam, now=at(7_200))
    assert (done.status, done.decided_by, done.note) == ("approved", pam.user, "welcome")
    assert hours(company) == {"inference": 22, "vision": 2, "nlp": -24}
    assert lots(company) == {"inference": [22], "vision": [2]}
    assert approve_transfer(transfer.pk, note="", actor=pam, now=at(7_300)).note == "welcome"


def test_who_asked_never_approves(company: Company) -> None:
    """An administrator of the organization may approve anything but the own request."""
    boss = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "boss")
    other = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "other")
    transfer = transfer_credits(
        asked(company, company.vision, company.inference, 6), actor=boss, now=NOW
    )
    assert transfer.status == "pending"
    with pytest.raises(Forbidden, match="another person decides"):
        approve_transfer(transfer.pk, note="", actor=boss, now=NOW)
    assert (may_approve(boss, transfer), may_approve(other, transfer)) == (False, True)
    assert approve_transfer(transfer.pk, note="", actor=other, now=NOW).status == "approved"


def test_the_senders_department_and_leads_do_not_approve(company: Company, ann: Actor) -> None:
    transfer = transfer_credits(
        asked(company, company.vision, company.inference, 6), actor=ann, now=NOW
    )
    for node, role in (
        (company.research, Role.DEPARTMENT_ADMIN),
        (company.inference, Role.TEAM_LEAD),
    ):
        with pytest.raises(Forbidden, match="manage_quota on ai-company/production"):
            approve_transfer(transfer.pk, note="", actor=an_actor(node, role), now=NOW)


def test_a_lead_does_not_transfer_the_credits_of_the_team(company: Company) -> None:
    lead = an_actor(company.vision, Role.TEAM_LEAD)
    for recipient in (company.nlp, company.inference):
        with pytest.raises(Forbidden, match="manage_quota on ai-company/research"):
            transfer_credits(asked(company, company.vision, recipient, 1), actor=lead, now=NOW)


def test_an_approval_needs_the_credits_that_are_left_by_then(
    company: Company, ann: Actor, pam: Actor
) -> None:
    """vision borrows 24 GPUs for an hour meanwhile. Against: only the request is checked."""
    transfer = transfer_credits(
        asked(company, company.vision, company.inference, 6), actor=ann, now=NOW
    )
    a_metered_attempt(company.vision, 3_600, 7_200, pool=company.pool, mgpu=32_000)
    settle_due(at(7_260))
    with pytest.raises(Conflict, match=r"vision can transfer at most 0\.0 GPU-hours"):
        approve_transfer(transfer.pk, note="", actor=pam, now=at(7_260))


def test_a_recipient_that_is_archived_meanwhile_receives_nothing(
    company: Company, ann: Actor, pam: Actor
) -> None:
    """The transfer can still be rejected, so the sender has its credits again.

    Planted: only the request is checked.
    """
    transfer = transfer_credits(
        asked(company, company.vision, company.inference, 6), actor=ann, now=NOW
    )
    Node.objects.filter(pk=company.inference.pk).update(archived_at=at(7_200))
    with pytest.raises(Conflict, match="inference is archived by now and receives no credits"):
        approve_transfer(transfer.pk, note="", actor=pam, now=at(7_260))
    transfer.refresh_from_db()
    assert (transfer.status, hours(company)["vision"]) == ("pending", 8)
    assert reject_transfer(transfer.pk, note="archived", actor=pam, now=at(7_300)).note
    assert {one.pending_debits for one in accounts_of(CreditPool.objects.get().ledger)} == {0}


def test_a_rejection_needs_a_note_and_releases_the_credits(
    company: Company, ann: Actor, pam: Actor
) -> None:
    transfer = transfer_credits(
        asked(company, company.vision, company.inference, 6), actor=ann, now=NOW
    )
    with pytest.raises(InvalidRequest, match="Say in note why"):
        reject_transfer(transfer.pk, note=" ", actor=pam, now=NOW)
    found = reject_transfer(transfer.pk, note="not needed", actor=pam, now=NOW)
    assert (found.status, found.note) == ("rejected", "not needed")
    assert {one.pending_debits for one in accounts_of(CreditPool.objects.get().ledger)} == {0}
    with pytest.raises(Conflict, match="This transfer is rejected"):
        approve_transfer(transfer.pk, note="", actor=pam, now=NOW)


def test_who_asked_may_withdraw_without_a_note(company: Company, ann: Actor) -> None:
    transfer = transfer_credits(
        asked(company, company.vision, company.inference, 6), actor=ann, now=NOW
    )
    assert reject_transfer(transfer.pk, note="", actor=ann, now=NOW).status == "withdrawn"
    assert hours(company) == {"inference": 16, "vision": 8, "nlp": -24}


@pytest.mark.parametrize("ledger_first", [True, False])
def test_a_transfer_that_nobody_decides_expires(
    company: Company, ann: Actor, pam: Actor, ledger_first: bool
) -> None:
    """The ledger voids expired transfers by itself, before or after. Against: a second void."""
    transfer = transfer_credits(
        asked(company, company.vision, company.inference, 6), actor=ann, now=NOW
    )
    week = NOW + timedelta(days=7)
    assert expire_transfers(week - timedelta(seconds=1)) == 0
    with pytest.raises(Conflict, match="This transfer is expired"):
        approve_transfer(transfer.pk, note="", actor=pam, now=week)
    if ledger_first:
        assert void_expired(now=week) == 1
    assert (expire_transfers(week), expire_transfers(week)) == (1, 0)
    transfer.refresh_from_db()
    assert (transfer.status, transfer.decided_by) == ("expired", None)
    assert {one.pending_debits for one in accounts_of(CreditPool.objects.get().ledger)} == {0}
    assert AuditEvent.objects.filter(action="credit_transfer.expired", actor="system").count() == 1


def test_odd_requests_are_refused_with_a_sentence(company: Company, ann: Actor) -> None:
    rival = a_company("rival")
    for sender, recipient, sentence in (
        (company.vision, company.vision, "two teams of one organization"),
        (company.vision, rival.nlp, "two teams of one organization"),
        (company.research, company.nlp, "is no team"),
    ):
        with pytest.raises(InvalidRequest, match=sentence):
            transfer_credits(asked(company, sender, recipient, 1), actor=ann, now=NOW)
    CreditBank.objects.update(is_on=False)
    with pytest.raises(Conflict, match="The credit bank of ai-company is off"):
        transfer_credits(asked(company, company.vision, company.nlp, 1), actor=ann, now=NOW)


# -- the database ---------------------------------------------------------------------------


def test_the_database_keeps_decisions(company: Company, ann: Actor, pam: Actor) -> None:
    """Each change breaks a constraint or a trigger. Planted: NULL for who decided or expiry."""
    pending, done = (
        transfer_credits(asked(company, company.vision, recipient, 1), actor=ann, now=NOW)
        for recipient in (company.inference, company.nlp)
    )
    rows = CreditTransfer.objects
    for changes, rule in (
        ({"status": "approved", "decided_at": NOW}, "credit_transfer_has_a_second_person"),
        (
            {"status": "approved", "decided_at": NOW, "decided_by": ann.user},
            "credit_transfer_has_a_second_person",
        ),
        (
            {"status": "withdrawn", "decided_at": NOW, "decided_by": pam.user},
            "credit_transfer_has_a_second_person",
        ),
        ({"status": "withdrawn", "decided_at": NOW}, "credit_transfer_has_a_second_person"),
        (
            {"status": "rejected", "decided_at": NOW, "decided_by": pam.user},
            "rejected_credit_transfer_has_a_note",
        ),
        ({"status": "done", "decided_at": NOW}, "credit_transfer_that_waits_expires"),
        ({"amount": 1}, "only changes by its decision"),
        ({"reason": ""}, "only changes by its decision"),
    ):
        with pytest.raises(IntegrityError, match=rule), transaction.atomic():
            rows.filter(pk=pending.pk).update(**changes)
    with pytest.raises(IntegrityError, match="only changes by its decision"), transaction.atomic():
        rows.filter(pk=done.pk).update(note="later")
    with pytest.raises(IntegrityError, match="only changes by its decision"), transaction.atomic():
        rows.filter(pk=pending.pk).delete()
    moves_nothing = "credit_transfer_moves_something"
    for changes, rule in (
        ({"amount": 0}, moves_nothing),
        ({"reason": ""}, moves_nothing),
        ({"recipient": company.vision}, moves_nothing),
        ({"status": "pending", "decided_at": None}, "credit_transfer_that_waits_expires"),
    ):
        values = {
            "credit_pool_id": pending.credit_pool_id,
            "sender": company.vision,
            "recipient": company.nlp,
            "amount": 1,
            "reason": "x",
            "status": "done",
            "asked_by": ann.user,
            "asked_at": NOW,
            "decided_at": NOW,
        } | changes
        with pytest.raises(IntegrityError, match=rule), transaction.atomic():
            rows.create(**values)
