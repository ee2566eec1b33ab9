"""The API of credits: the balances of an organization, statements, and the switch of the bank."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from audit.models import AuditEvent
from bank.models import CreditBank, CreditPool
from bank.settling import settle_due
from bank.statements import credits_in, statement_of
from bank.switching import bank_of, change_bank
from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt, at
from builders.portal_builders import Company, a_company, a_grant, a_user, an_actor
from primitives.errors import Conflict, Forbidden, PreconditionFailed
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

GPU_HOUR = 3_600 * 1_000_000


@pytest.fixture
def company() -> Company:
    """nlp, guaranteed 8, used 16 GPUs for an hour of 1 November; its bank is on."""
    company = a_company()
    CreditBank.objects.create(organization=company.organization, is_on=True, switched_at=at(0))
    a_metered_attempt(company.nlp, 0, 3_600, pool=company.pool, mgpu=16_000)
    settle_due(at(3_660))
    return company


def an_admin(company: Company) -> Actor:
    return an_actor(company.organization, Role.ORGANIZATION_ADMIN)


def test_teams_come_in_their_order_for_spare_gpus(company: Company) -> None:
    """inference has the higher rank. vision lent, and nlp paid a day of a third of its guarantee.

    Planted: teams by path.
    """
    found = credits_in(company.organization, company.pool)
    assert [(one.team.slug, one.tenths) for one in found.teams] == [
        ("inference", 0),
        ("vision", 0),
        ("nlp", -1),
    ]
    nlp = found.teams[2]
    assert nlp.balance_ugpu_s == -8 * GPU_HOUR
    assert (nlp.floor_ugpu_s, nlp.cap_ugpu_s) == (-7 * 24 * 8 * GPU_HOUR, 14 * 24 * 8 * GPU_HOUR)
    assert found.settled_until == at(3_600)
    assert sum(one.balance_ugpu_s for one in found.teams) + found.pool_ugpu_s == 0


def test_a_statement_has_a_line_a_day_and_counterparty(company: Company) -> None:
    """The opening balance plus all lines is the closing one, and that of the ledger."""
    statement = statement_of(company.nlp, company.pool, 2026, 11)
    assert [(line.kind, line.other, line.day.isoformat()) for line in statement.lines] == [
        ("lent", "ai-company/production/inference", "2026-11-01"),
        ("lent", "ai-company/research/vision", "2026-11-01"),
    ]
    assert statement.opening_ugpu_s == 0
    assert statement.closing_ugpu_s == -8 * GPU_HOUR
    assert statement.lines[-1].balance_ugpu_s == statement.closing_ugpu_s
    december = statement_of(company.nlp, company.pool, 2026, 12)
    assert (december.opening_ugpu_s, december.lines) == (-8 * GPU_HOUR, ())


def test_a_lender_sees_what_expires_and_when(company: Company) -> None:
    statement = statement_of(company.vision, company.pool, 2026, 11)
    (lot,) = statement.expiring
    assert lot.last_day.isoformat() == "2027-01-31"
    assert lot.amount_ugpu_s == statement.closing_ugpu_s > 0


def test_a_statement_has_months_of_the_organizations_time_zone(company: Company) -> None:
    """In New York the hour after midnight UTC of 1 November is still October."""
    company.organization.organizationpolicy.delete()
    policy = company.organization.organizationpolicy.__class__
    policy.objects.create(organization=company.organization, time_zone="America/New_York")
    october = statement_of(company.nlp, company.pool, 2026, 10)
    assert october.closing_ugpu_s == -8 * GPU_HOUR
    assert {line.day.isoformat() for line in october.lines} == {"2026-10-31"}
    assert october.end == datetime(2026, 11, 1, 4, tzinfo=UTC)


def test_a_bank_is_switched_by_version_with_an_audit_event(company: Company) -> None:
    """Nothing is settled for the time in which it was off. Planted: it catches up."""
    admin, organization = an_admin(company), company.organization
    change_bank(organization.pk, {"is_on": False}, actor=admin, if_version=1, now=at(3_700))
    a_metered_attempt(company.nlp, 4_500, 9_000, pool=company.pool, mgpu=16_000)
    with pytest.raises(PreconditionFailed):
        change_bank(organization.pk, {"is_on": True}, actor=admin, if_version=1, now=at(8_000))
    change_bank(organization.pk, {"is_on": True}, actor=admin, if_version=2, now=at(8_000))
    assert CreditPool.objects.get().settled_until == at(8_100)
    assert settle_due(at(9_060)) == 1
    assert statement_of(company.nlp, company.pool, 2026, 11).closing_ugpu_s == -10 * GPU_HOUR
    events = AuditEvent.objects.filter(action="credit_bank.changed").order_by("id")
    assert [event.detail for event in events] == [{"is_on": False}, {"is_on": True}]


def test_a_bank_is_settled_until_it_is_switched_off(company: Company) -> None:
    """nlp borrowed 8 GPUs of 3,600 to 4,000 s; after that they are free. The timer settles it.

    Against: whole quarters only; the time after the switch, too.
    """
    admin, organization = an_admin(company), company.organization
    a_metered_attempt(company.nlp, 3_600, None, pool=company.pool, mgpu=16_000)
    change_bank(organization.pk, {"is_on": False}, actor=admin, if_version=1, now=at(4_000))
    assert settle_due(at(4_059)) == 0
    assert settle_due(at(4_060)) == 1
    assert settle_due(at(9_000)) == 0
    assert CreditPool.objects.get().settled_until == at(4_000)
    closing = statement_of(company.nlp, company.pool, 2026, 11).closing_ugpu_s
    assert closing == -8 * GPU_HOUR - 8 * 400 * 1_000_000


def test_a_bank_that_is_soon_on_again_is_settled_until_it_was_off(company: Company) -> None:
    """Nobody waits for the timer. Against: the time before the switch is dropped."""
    admin, organization = an_admin(company), company.organization
    a_metered_attempt(company.nlp, 3_600, None, pool=company.pool, mgpu=16_000)
    change_bank(organization.pk, {"is_on": False}, actor=admin, if_version=1, now=at(4_700))
    change_bank(organization.pk, {"is_on": True}, actor=admin, if_version=2, now=at(4_701))
    closing = statement_of(company.nlp, company.pool, 2026, 11).closing_ugpu_s
    assert closing == -8 * GPU_HOUR - 8 * 1_100 * 1_000_000
    assert CreditPool.objects.get().settled_since == at(5_400)


def test_a_bank_that_is_far_behind_is_not_switched_on(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call settles a bounded number of intervals, so the timer goes on first."""
    admin, organization = an_admin(company), company.organization
    monkeypatch.setattr("bank.settling.INTERVALS_MAX", 2)
    change_bank(organization.pk, {"is_on": False}, actor=admin, if_version=1, now=at(7_200))
    with pytest.raises(Conflict, match="still being settled"):
        change_bank(organization.pk, {"is_on": True}, actor=admin, if_version=2, now=at(7_300))
    assert settle_due(at(7_400)) == 2
    assert settle_due(at(7_400)) == 2
    change_bank(organization.pk, {"is_on": True}, actor=admin, if_version=2, now=at(7_400))


def test_a_team_lead_sees_the_bank_and_may_not_switch_it(company: Company) -> None:
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    assert bank_of(lead, company.organization.pk).is_on
    with pytest.raises(Forbidden):
        change_bank(
            company.organization.pk, {"is_on": False}, actor=lead, if_version=1, now=at(3_700)
        )


def test_transfers_over_rest(company: Company) -> None:
    """The list says who may decide; the answer of a repeat with the same key is the first one."""
    people = {}
    for name, node in (("ann", company.research), ("pam", company.production)):
        user = a_user(company.organization, name)
        a_grant(user, Role.DEPARTMENT_ADMIN, node)
        people[name] = by_token(user)
    body = {
        "sender": "vision",
        "recipient": "inference",
        "pool": "h100",
        "amount_ugpu_s": GPU_HOUR,
        "reason": "for the deadline",
    }
    made = people["ann"].post("credits/transfers", body, Idempotency_Key="once")
    assert made.status_code == 201, made.content
    transfer = made.json()
    assert {name: transfer[name] for name in ("status", "sender", "recipient", "asked_by")} == {
        "status": "pending",
        "sender": "ai-company/research/vision",
        "recipient": "ai-company/production/inference",
        "asked_by": "ann@ai-company",
    }
    assert people["ann"].post("credits/transfers", body, Idempotency_Key="once").json() == transfer

    def rights(name: str) -> list[tuple[bool, bool]]:
        items = people[name].get("credits/transfers?status=pending&team=inference").json()["items"]
        return [(item["may_approve"], item["may_withdraw"]) for item in items]

    assert (rights("ann"), rights("pam")) == ([(False, True)], [(True, False)])
    path = f"credits/transfers/{transfer['id']}"
    assert people["pam"].post(f"{path}/reject", {}).status_code == 400
    approved = people["pam"].post(f"{path}/approve", {}).json()
    assert (approved["status"], approved["decided_by"]) == ("approved", "pam@ai-company")
    assert (rights("ann"), rights("pam")) == ([], [])
    found = people["ann"].get("credits?organization=ai-company&pool=h100").json()["teams"]
    left = {team["team"].split("/")[-1]: team["transferable_ugpu_s"] for team in found}
    assert (left["nlp"], left["vision"]) == (0, 8 * GPU_HOUR // 3 - GPU_HOUR)
