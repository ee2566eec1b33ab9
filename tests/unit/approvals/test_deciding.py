"""Decisions about requests: approve, counter-offer, reject, and the changes that they make."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from approvals import asking, deciders, reading
from approvals.api.serializers import shown_detail
from approvals.asking import EXPIRES_AFTER, ask, comment, expire_requests
from approvals.changes import Terms, state_tag
from approvals.deciding import accept_offer, approve, counter, decline_offer, reject, withdraw
from approvals.models import ChangeRequest, CounterOffer, RequestKind
from approvals.reading import counts, listed, supply_of, visible_requests
from approvals.words import title_of
from audit.models import AuditEvent
from budgets.models import Budget
from builders.approval_builders import approved, asked, wanted
from builders.budget_builders import GPU_HOUR, an_evaluated_budget
from builders.notice_builders import a_webhook
from builders.notice_builders import told as notices_of
from builders.portal_builders import NOW, Company, a_company, an_actor
from notices.models import Notice
from notices.webhook_models import WebhookDelivery
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound, PreconditionFailed
from quotas.models import PlannedChange, PriorityClass, Quota
from quotas.planned_changes import carry_out_due
from tenants.access import Actor, actor_of
from tenants.models import Node, RoleGrant
from tenants.roles import Role

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def bob(company: Company) -> Actor:
    """Bob researches in nlp."""
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


@pytest.fixture
def dora(company: Company) -> Actor:
    """Dora administers research, the department of nlp and vision."""
    return an_actor(company.research, Role.DEPARTMENT_ADMIN, "dora")


@pytest.fixture
def mira(company: Company) -> Actor:
    """Mira leads vision."""
    return an_actor(company.vision, Role.TEAM_LEAD, "mira")


def gpus(*nodes: Node) -> list[int]:
    found = dict(Quota.objects.values_list("node", "guaranteed_mgpu"))
    return [found[node.pk] // 1000 for node in nodes]


def acts() -> list[tuple[str, str]]:
    found = AuditEvent.objects.filter(subject_kind="request").order_by("pk")
    return [(event.action.removeprefix("request."), event.actor) for event in found]


def told(actor: Actor) -> list[str]:
    rows = Notice.objects.filter(user=actor.user).order_by("pk")
    return [row.event for row in rows if row.subject_kind == "request"]


def offered(request: ChangeRequest, actor: Actor, terms: Terms) -> ChangeRequest:
    return counter(request.pk, terms, note="", if_match=state_tag(request), actor=actor, now=NOW)


def test_an_approved_request_applies_and_reverts_by_itself(
    company: Company, bob: Actor, dora: Actor
) -> None:
    """The sibling gives for six hours. Against: sources were added to the node twice."""
    request = asked(bob, until=NOW + 6 * HOUR)
    assert (counts(dora)["to_decide"], counts(bob)["mine"]) == (1, 1)

    done = approved(request, dora, {company.vision.pk: 4_000}, now=NOW + HOUR)

    planned = PlannedChange.objects.get()
    assert gpus(company.nlp, company.vision, company.research) == [12, 4, 16]
    assert (done.status, done.decided_by, done.planned) == ("approved", dora.user, planned)
    assert (planned.status, planned.revert_at) == ("applied", NOW + 6 * HOUR)
    assert planned.reason == "Request of bob@ai-company: the review is on Friday"
    carry_out_due(now=NOW + 6 * HOUR)
    assert gpus(company.nlp, company.vision) == [8, 8]
    assert acts() == [("asked", bob.user.login), ("approved", dora.user.login)]
    assert (told(dora), told(bob)) == (["decision_waiting"], ["request_decided"])
    assert (counts(dora)["to_decide"], counts(dora)["decided"]) == (0, 1)


def test_an_approved_request_that_begins_later_is_a_planned_change(
    company: Company, bob: Actor, dora: Actor
) -> None:
    """The change is applied at its begin and reverted at its end. The request expires at its begin.

    Against: it is applied at the approval; its length counts from the approval on.
    """
    request = asked(bob, begin=NOW + 24 * HOUR, until=NOW + 30 * HOUR)
    assert request.expires_at == NOW + 24 * HOUR
    assert title_of(request) == (
        "nlp +4 GPUs of h100 from 2026-11-22 12:00 UTC until 2026-11-22 18:00 UTC"
    )
    done = approved(request, dora, {company.vision.pk: 4_000}, now=NOW + HOUR)
    planned = PlannedChange.objects.get()
    assert (done.planned, planned.status, planned.apply_at) == (
        planned,
        "scheduled",
        NOW + 24 * HOUR,
    )
    assert gpus(company.nlp, company.vision) == [8, 8]
    carry_out_due(now=NOW + 24 * HOUR)
    assert gpus(company.nlp, company.vision) == [12, 4]
    planned.refresh_from_db()
    assert planned.revert_at == NOW + 30 * HOUR
    carry_out_due(now=NOW + 30 * HOUR)
    assert gpus(company.nlp, company.vision) == [8, 8]


def test_an_offer_that_begins_later_than_the_request_is_no_source(
    company: Company, bob: Actor, mira: Actor
) -> None:
    """Planted: each open offer counts, whenever it begins."""
    until = NOW + 48 * HOUR
    loan = {"kind": RequestKind.LOAN, "lender": "ai-company/research/vision", "until": until}
    asked(mira, **loan, begin=NOW + 24 * HOUR)

    def offered_to(begin: datetime | None) -> int:
        supply = supply_of(asked(bob, begin=begin, until=until))
        assert supply is not None
        return sum(source.offered_mgpu for source in supply.sources)

    moments = (None, NOW + 23 * HOUR, NOW + 24 * HOUR)
    assert [offered_to(begin) for begin in moments] == [0, 0, 4_000]


def test_a_repeated_approval_changes_nothing(company: Company, bob: Actor, dora: Actor) -> None:
    """A second one with an old ETag is answered as the first. Against: the ETag came first."""
    request = asked(bob)
    tag = state_tag(request)
    for _ in range(2):
        approve(
            request.pk,
            {company.vision.pk: 4_000},
            note="",
            if_match=tag,
            actor=dora,
            now=NOW,
        )
    assert gpus(company.nlp, company.vision) == [12, 4]
    assert PlannedChange.objects.count() == 1


def test_rights_are_checked_at_the_decision(company: Company, bob: Actor, dora: Actor) -> None:
    """Dora could decide when she was asked, and lost the role. Against: checked when asked only."""
    request = asked(bob)
    RoleGrant.objects.filter(user=dora.user).update(node=company.production)
    dora_now = actor_of(dora.user)
    with pytest.raises(NotFound):
        reject(request.pk, note="no", actor=dora_now, now=NOW)
    alice = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")
    approved(request, alice, {company.vision.pk: 4_000})
    assert gpus(company.nlp) == [12]


def test_nobody_decides_the_own_request(company: Company, dora: Actor) -> None:
    """Not even with the right to make the change. Against: the asker was not excluded."""
    request = asked(dora)
    for decide in (
        lambda: approved(request, dora, {company.vision.pk: 4_000}),
        lambda: reject(request.pk, note="no", actor=dora, now=NOW),
        lambda: offered(request, dora, Terms(1_000, None, {})),
    ):
        with pytest.raises(Forbidden, match="You asked for this"):
            decide()
    assert counts(dora)["to_decide"] == 0
    assert gpus(company.nlp) == [8]


def test_a_lead_reads_the_requests_of_siblings_and_does_not_decide(
    company: Company, bob: Actor, mira: Actor
) -> None:
    """The lead of vision may comment and offer. A lead elsewhere sees nothing."""
    request = asked(bob)
    inga = an_actor(company.inference, Role.TEAM_LEAD, "inga")
    assert (list(visible_requests(mira)), list(visible_requests(inga))) == ([request], [])
    with pytest.raises(Forbidden, match="may not make this change yourself"):
        approved(request, mira)
    comment(request.pk, "vision can spare 2", actor=mira, now=NOW)
    assert told(bob) == ["request_commented"]
    with pytest.raises(NotFound):
        comment(request.pk, "hello", actor=inga, now=NOW)


def test_the_parents_reserve_gives_what_siblings_do_not(
    company: Company, bob: Actor, dora: Actor
) -> None:
    """Research keeps 2 GPUs: 2 from vision and 2 from the reserve. More is refused as a whole."""
    Quota.objects.filter(node=company.vision).update(guaranteed_mgpu=6_000)
    request = asked(bob)
    supply = supply_of(request)
    assert supply is not None
    assert (supply.guaranteed_mgpu, supply.reserve_mgpu) == (8_000, 2_000)
    assert [(one.node, one.guaranteed_mgpu) for one in supply.sources] == [
        ("ai-company/research/vision", 6_000)
    ]
    with pytest.raises(Conflict, match="10 are left"):
        approved(request, dora)
    assert (gpus(company.nlp), PlannedChange.objects.count()) == ([8], 0)
    approved(request, dora, {company.vision.pk: 2_000})
    assert gpus(company.nlp, company.vision) == [12, 4]


def test_sources_are_siblings_that_have_enough(company: Company, bob: Actor, dora: Actor) -> None:
    """A team elsewhere gives nothing, and nobody more than asked. Against: no check of the sum."""
    request = asked(bob)
    for sources in ({company.inference.pk: 4_000}, {company.vision.pk: 5_000}):
        with pytest.raises(InvalidRequest):
            approved(request, dora, sources)
    large = asked(bob, amount=9_000)
    with pytest.raises(Conflict, match="cannot give more"):
        approved(large, dora, {company.vision.pk: 9_000})
    assert gpus(company.nlp, company.vision, company.inference) == [8, 8, 16]


def test_a_stale_preview_is_refused(company: Company, bob: Actor, dora: Actor) -> None:
    """A quota changed since the decider looked. Against: only the request's version counted."""
    request = asked(bob)
    tag = state_tag(request)
    Quota.objects.filter(node=company.inference).update(version=2)
    with pytest.raises(PreconditionFailed):
        approve(request.pk, {}, note="", if_match=tag, actor=dora, now=NOW)
    assert ChangeRequest.objects.get().status == "pending"


def test_an_accepted_counter_offer_is_the_approval(
    company: Company, bob: Actor, dora: Actor
) -> None:
    """Dora offers 2 of 4 for an hour. Against: the terms asked for were applied."""
    request = asked(bob)
    offered(request, dora, Terms(2_000, NOW + 2 * HOUR, {company.vision.pk: 2_000}))
    assert told(bob) == ["decision_waiting"]
    assert (counts(dora)["to_decide"], counts(bob)["to_answer"]) == (0, 1)
    with pytest.raises(Forbidden, match="Only bob"):
        accept_offer(request.pk, 1, actor=dora, now=NOW)

    for _ in range(2):
        done = accept_offer(request.pk, 1, actor=bob, now=NOW + HOUR)

    assert gpus(company.nlp, company.vision) == [10, 6]
    assert (done.status, done.decided_by) == ("approved", dora.user)
    assert PlannedChange.objects.get().revert_at == NOW + 2 * HOUR
    assert acts()[1:] == [("countered", dora.user.login), ("approved", dora.user.login)]


def test_an_offer_needs_the_right_of_its_maker_when_it_is_accepted(
    company: Company, bob: Actor, dora: Actor
) -> None:
    """Dora lost the role meanwhile. Against: no check at the acceptance."""
    request = asked(bob)
    offered(request, dora, Terms(2_000, None, {company.vision.pk: 2_000}))
    RoleGrant.objects.filter(user=dora.user).update(node=company.production)
    with pytest.raises(Conflict, match="may no longer decide"):
        accept_offer(request.pk, 1, actor=bob, now=NOW)
    assert gpus(company.nlp) == [8]


def test_an_offer_holds_only_while_its_quotas_are_unchanged(
    company: Company, bob: Actor, dora: Actor
) -> None:
    """Against: the base was not compared."""
    request = asked(bob)
    offered(request, dora, Terms(2_000, None, {company.vision.pk: 2_000}))
    Quota.objects.filter(node=company.inference).update(version=9)
    Quota.objects.filter(node=company.vision).update(version=9)
    with pytest.raises(Conflict, match="have changed since"):
        accept_offer(request.pk, 1, actor=bob, now=NOW)
    Quota.objects.filter(node=company.vision).update(version=1)
    assert accept_offer(request.pk, 1, actor=bob, now=NOW).status == "approved"


def test_a_declined_or_replaced_offer_cannot_be_accepted(
    company: Company, bob: Actor, dora: Actor
) -> None:
    """The request waits again after it. Against: any number was accepted."""
    request = asked(bob)
    offered(request, dora, Terms(1_000, None, {company.vision.pk: 1_000}))
    again = ChangeRequest.objects.get()
    offered(again, dora, Terms(2_000, None, {company.vision.pk: 2_000}))
    with pytest.raises(Conflict, match="replaced or declined"):
        accept_offer(request.pk, 1, actor=bob, now=NOW)
    assert decline_offer(request.pk, 2, actor=bob, now=NOW).status == "pending"
    with pytest.raises(Conflict, match="replaced or declined"):
        accept_offer(request.pk, 2, actor=bob, now=NOW)
    with pytest.raises(NotFound):
        accept_offer(request.pk, 3, actor=bob, now=NOW)
    assert gpus(company.nlp) == [8]


def test_a_rejection_needs_a_note_and_is_final(company: Company, bob: Actor, dora: Actor) -> None:
    """Against: an empty note passed."""
    request = asked(bob)
    with pytest.raises(InvalidRequest, match="Say in note"):
        reject(request.pk, note=" ", actor=dora, now=NOW)
    for _ in range(2):
        assert reject(request.pk, note="not now", actor=dora, now=NOW).status == "rejected"
    sentence = "The request “nlp +4 GPUs of h100” of bob@ai-company was rejected: not now"
    assert notices_of(bob.user) == [("request_decided", sentence)]
    for act in (
        lambda: approved(request, dora),
        lambda: withdraw(request.pk, actor=bob, now=NOW),
        lambda: offered(request, dora, Terms(1_000, None, {})),
    ):
        with pytest.raises(Conflict, match="rejected already"):
            act()


def test_people_withdraw_their_own_requests_only(bob: Actor, dora: Actor) -> None:
    """Withdrawing twice changes nothing."""
    request = asked(bob)
    with pytest.raises(Forbidden, match="Only bob"):
        withdraw(request.pk, actor=dora, now=NOW)
    for _ in range(2):
        assert withdraw(request.pk, actor=bob, now=NOW).status == "withdrawn"
    assert list(listed(bob, "mine")) == []


def test_requests_expire_after_a_week_and_people_are_told_before(
    company: Company, bob: Actor, dora: Actor
) -> None:
    """Once each. Against: no notice before; approval after the time."""
    request = asked(bob)
    assert request.expires_at == NOW + timedelta(days=7)
    for _ in range(2):
        assert expire_requests(NOW + timedelta(days=6, hours=1)) == 0
    assert told(dora) == ["decision_waiting", "request_expiring"]
    assert told(bob) == ["request_expiring"]
    with pytest.raises(Conflict, match="has expired"):
        approved(request, dora, {company.vision.pk: 4_000}, now=NOW + timedelta(days=7))
    assert [expire_requests(NOW + timedelta(days=7)) for _ in range(2)] == [1, 0]
    assert ChangeRequest.objects.get().status == "expired"
    assert told(bob) == ["request_expiring", "request_decided"]


def test_a_reminder_of_expiry_is_worked_on_once(
    company: Company, bob: Actor, dora: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: deciders that are sought each minute for a day."""
    asked(bob)
    expire_requests(NOW + timedelta(days=6, hours=1))
    monkeypatch.setattr(asking, "tell_of_expiry", None)
    assert expire_requests(NOW + timedelta(days=6, hours=2)) == 0


def test_deciders_are_found_among_many_other_people(
    company: Company, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: the first people of any role, and grants that expired, fill the list."""
    monkeypatch.setattr(deciders, "RECIPIENTS_MAX", 1)
    an_actor(company.research, Role.RESEARCHER, "rita")
    former = an_actor(company.research, Role.DEPARTMENT_ADMIN, "fred")
    long_ago = NOW - timedelta(days=3_650)
    RoleGrant.objects.filter(user=former.user).update(
        created_at=long_ago, expires_at=long_ago + HOUR
    )
    dora = an_actor(company.research, Role.DEPARTMENT_ADMIN, "dora")
    assert deciders.nearest_deciders(asked(bob)) == [dora.user.pk]


def test_the_supply_is_exact_with_more_siblings_than_are_listed(
    company: Company, bob: Actor, mira: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: a node or a sum that the bound of the list cuts off."""
    request = asked(bob)
    monkeypatch.setattr(reading, "_SOURCES_LISTED_MAX", 0)
    supply = supply_of(request)
    assert supply is not None
    assert (supply.guaranteed_mgpu, supply.reserve_mgpu, supply.sources) == (8_000, 0, ())


def test_a_loan_is_offered_by_the_lenders_lead_and_used_by_an_approval(
    company: Company, bob: Actor, dora: Actor, mira: Actor
) -> None:
    """Vision lends 4 until tomorrow; the approval that takes them closes the offer, too."""
    loan = asked(
        mira,
        kind="loan",
        lender="ai-company/research/vision",
        until=NOW + timedelta(days=1),
    )
    request = asked(bob, until=NOW + timedelta(days=1))
    supply = supply_of(request)
    assert supply is not None
    assert [one.offered_mgpu for one in supply.sources] == [4_000]
    approved(request, dora, {company.vision.pk: 4_000})
    loan.refresh_from_db()
    assert (loan.status, loan.decided_by, loan.note) == (
        "approved",
        dora.user,
        "Used for the request of bob@ai-company.",
    )
    assert gpus(company.nlp, company.vision) == [12, 4]


def test_a_loan_may_be_approved_alone(company: Company, dora: Actor, mira: Actor) -> None:
    """The loan lowers one guarantee and raises the other. Against: the lender gave nothing."""
    loan = asked(
        mira, kind="loan", lender="ai-company/research/vision", until=NOW + 5 * HOUR, amount=3_000
    )
    approved(loan, dora)
    assert gpus(company.nlp, company.vision) == [11, 5]
    assert PlannedChange.objects.get().revert_at == NOW + 5 * HOUR


def test_only_people_who_manage_the_lender_offer_its_gpus(company: Company, bob: Actor) -> None:
    """Bob cannot give away GPUs of vision."""
    with pytest.raises(Forbidden):
        asked(bob, kind="loan", lender="ai-company/research/vision", until=NOW + HOUR)


def test_a_borrow_limit_is_raised(company: Company, bob: Actor, dora: Actor) -> None:
    """By the amount. Without a limit there is nothing to ask."""
    with pytest.raises(Conflict, match="has no borrow limit"):
        asked(bob, kind="borrow_limit")
    Quota.objects.filter(node=company.nlp).update(borrow_limit_mgpu=2_000)
    approved(asked(bob, kind="borrow_limit"), dora)
    assert Quota.objects.get(node=company.nlp).borrow_limit_mgpu == 6_000


def test_a_budget_is_raised_by_finance(company: Company, dora: Actor) -> None:
    """The lead asks, finance decides. Against: the limit was replaced by the amount."""
    budget = an_evaluated_budget(company.nlp)
    leo = an_actor(company.nlp, Role.TEAM_LEAD, "leo")
    fay = an_actor(company.organization, Role.FINANCE, "fay")
    request = asked(
        leo, kind="budget", node=None, pool=None, target=budget.pk, amount=50 * GPU_HOUR
    )
    assert (request.node, str(request.target)) == (company.nlp, "budget of nlp")
    approved(request, fay)
    assert Budget.objects.get().limit == 150 * GPU_HOUR
    assert ChangeRequest.objects.get().planned is None


def test_a_cap_of_a_class_is_raised(company: Company, bob: Actor, dora: Actor) -> None:
    """By an administrator of the organization, as its classes are of all teams."""
    found = PriorityClass.objects.get()
    with pytest.raises(Conflict, match="has no cap"):
        asked(bob, kind="class_cap", pool=None, target=found.pk)
    PriorityClass.objects.update(team_cap_mgpu=8_000)
    request = asked(bob, kind="class_cap", pool=None, target=found.pk)
    alice = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")
    assert (counts(dora)["to_decide"], counts(alice)["to_decide"]) == (0, 1)
    approved(request, alice)
    assert PriorityClass.objects.get().team_cap_mgpu == 12_000


def test_a_role_is_granted_by_somebody_who_has_its_rights(company: Company, bob: Actor) -> None:
    """A lead may grant lead, and not finance. Against: manage_members was enough."""
    leo = an_actor(company.nlp, Role.TEAM_LEAD, "leo")
    role = {"kind": "role", "pool": None, "amount": None}
    with pytest.raises(Conflict, match="already"):
        asked(bob, **role, role=Role.RESEARCHER)
    lead, finance = (asked(bob, **role, role=one) for one in (Role.TEAM_LEAD, Role.FINANCE))
    assert list(listed(leo, "to_decide")) == [lead]
    approved(lead, leo)
    with pytest.raises(NotFound):
        approved(finance, leo)
    assert sorted(role for role, _ in actor_of(bob.user).grants) == ["researcher", "team_lead"]


def test_a_role_is_asked_for_until_a_date(company: Company, bob: Actor) -> None:
    """Against: the role is granted for good."""
    leo = an_actor(company.nlp, Role.TEAM_LEAD, "leo")
    until = NOW + 24 * HOUR
    role = {"kind": RequestKind.ROLE, "pool": None, "amount": None, "role": Role.TEAM_LEAD}
    request = asked(bob, **role, until=until)
    assert title_of(request) == "Role team_lead on nlp until 2026-11-22 12:00 UTC"
    approved(request, leo)
    grant = RoleGrant.objects.get(user=bob.user, role=Role.TEAM_LEAD)
    assert grant.expires_at == until
    with pytest.raises(InvalidRequest, match="in the future"):
        asked(bob, **role, until=NOW)
    with pytest.raises(InvalidRequest):
        asked(bob, **role, begin=until)


def test_the_nearest_people_are_told(company: Company, bob: Actor, dora: Actor) -> None:
    """Dora is nearer than Alice. With Dora as the asker, Alice is told. Against: all were."""
    alice = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")
    asked(bob)
    assert (told(dora), told(alice)) == (["decision_waiting"], [])
    asked(dora)
    assert told(alice) == ["decision_waiting"]


def test_requests_name_what_their_kind_needs(company: Company, bob: Actor) -> None:
    """Each refusal names the member. Strangers of the node ask for nothing.

    Planted: the rights of a role looked up before the request is known to have one.
    """
    for changes in (
        {"kind": RequestKind.ROLE, "pool": None, "amount": None},
        {"amount": None},
        {"role": Role.TEAM_LEAD},
        {"pool": None},
        {"amount": 0},
        {"pool": "no-such-pool"},
    ):
        with pytest.raises(InvalidRequest):
            asked(bob, **changes)
    with pytest.raises(Forbidden, match="work in"):
        asked(bob, node="ai-company/research/vision")
    for times in (
        {"until": NOW + timedelta(seconds=30)},
        {"begin": NOW + HOUR, "until": NOW + HOUR},
    ):
        with pytest.raises(Conflict, match="must last from a minute to a year"):
            asked(bob, **times)
    with pytest.raises(InvalidRequest, match="in the future"):
        asked(bob, begin=NOW)


def test_a_token_that_reads_answers_nothing(company: Company, bob: Actor, dora: Actor) -> None:
    """Nor does it comment or withdraw. Planted: the person alone compared."""
    request = offered(asked(bob), dora, Terms(2_000, None, {company.vision.pk: 2_000}))
    reads = actor_of(bob.user, ["read"])
    for answer in (
        lambda: accept_offer(request.pk, 1, actor=reads, now=NOW),
        lambda: decline_offer(request.pk, 1, actor=reads, now=NOW),
        lambda: withdraw(request.pk, actor=reads, now=NOW),
        lambda: comment(request.pk, "hello", actor=reads, now=NOW),
    ):
        with pytest.raises(Forbidden, match="This token may not do this"):
            answer()
    request.refresh_from_db()
    assert (request.status, gpus(company.nlp), request.comments.count()) == ("countered", [8], 0)


@pytest.mark.parametrize("until", [None, NOW + timedelta(days=2)])
def test_an_offer_to_lend_for_a_time_is_not_used_for_longer(
    company: Company, bob: Actor, dora: Actor, mira: Actor, until: datetime | None
) -> None:
    """The offer waits on. Planted: the amount alone compared (approved)."""
    loan = asked(mira, kind="loan", lender="ai-company/research/vision", until=NOW + 24 * HOUR)
    request = asked(bob, until=until)
    supply = supply_of(request)
    assert supply is not None
    assert [one.offered_mgpu for one in supply.sources] == [0]
    approved(request, dora, {company.vision.pk: 4_000})
    loan.refresh_from_db()
    assert loan.status == "pending"


def test_an_expired_offer_to_lend_is_not_used(
    company: Company, bob: Actor, dora: Actor, mira: Actor
) -> None:
    """Also before the timer closes it. Planted: the status alone read (approved)."""
    end = NOW + timedelta(days=9)
    lent = wanted(kind="loan", lender="ai-company/research/vision", until=end)
    loan = ask(lent, actor=mira, now=NOW + HOUR - EXPIRES_AFTER)
    request = asked(bob, until=NOW + timedelta(days=8))
    approved(request, dora, {company.vision.pk: 4_000}, now=NOW + HOUR)
    loan.refresh_from_db()
    assert loan.status == "pending"


def test_an_offer_is_shown_after_its_source_was_deleted(
    company: Company, bob: Actor, dora: Actor
) -> None:
    """Planted: the path of each source looked up (KeyError)."""
    request = asked(bob)
    CounterOffer.objects.create(
        request=request,
        number=1,
        amount=2_000,
        sources=[{"node": str(UUID(int=1)), "amount_mgpu": 2_000}],
        base={},
        made_by=dora.user,
        made_at=NOW,
    )
    (offer,) = shown_detail(request, actor=dora)["offers"]
    assert offer["sources"] == [{"node": "(deleted)", "amount_mgpu": 2_000}]


def test_a_former_author_without_rights_is_told_nothing(
    company: Company, bob: Actor, dora: Actor, mira: Actor
) -> None:
    """Mira commented, and leads vision no longer. Planted: every earlier author told."""
    request = asked(bob)
    comment(request.pk, "vision can spare 2", actor=mira, now=NOW)
    comment(request.pk, "thank you", actor=bob, now=NOW)
    assert told(mira) == ["request_commented"]
    RoleGrant.objects.filter(user=mira.user).delete()
    comment(request.pk, "for the merger", actor=bob, now=NOW)
    assert told(mira) == ["request_commented"]
    assert told(dora).count("request_commented") == 3


def test_channels_hear_of_quotas_and_never_of_roles(company: Company, bob: Actor) -> None:
    """Against: the node of a request for a role. Its channel may be read by more than decide."""
    a_webhook(node=company.nlp, events=["decision_waiting"])
    role = {"kind": RequestKind.ROLE, "pool": None, "amount": None, "role": Role.TEAM_LEAD}
    asked(bob, **role)
    assert not WebhookDelivery.objects.exists()
    asked(bob)
    assert "GPUs of h100" in WebhookDelivery.objects.get().data["sentence"]
