"""Every order of actions by the person who asks, two deciders, an administrator and the timer.

No order leads to a change without exactly one approval, by a person with the right at that moment.
Every action is tried in every state that any order reaches. A refused action changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import transaction

from approvals.asking import expire_requests
from approvals.changes import Terms, state_tag
from approvals.deciding import accept_offer, counter, decline_offer, reject, withdraw
from approvals.models import OPEN, ChangeRequest
from builders.approval_builders import approved, asked
from builders.portal_builders import NOW, Company, a_company, an_actor
from primitives.errors import PortalError
from quotas.models import PlannedChange, Quota
from tenants.access import actor_of
from tenants.models import RoleGrant, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(days=8)


@dataclass(frozen=True)
class Scene:
    """A request of bob; dora and dan administer research, unless their role is revoked."""

    company: Company
    request: ChangeRequest
    bob: User
    deciders: tuple[User, User]

    def now(self) -> ChangeRequest:
        return ChangeRequest.objects.get(pk=self.request.pk)

    def actions(self) -> dict[str, Callable[[], object]]:
        """The actions by name. Each is tried in every state."""
        pk, bob, company = self.request.pk, actor_of(self.bob), self.company
        dora, dan = (actor_of(user) for user in self.deciders)
        gives = {company.vision.pk: 4_000}

        def offer() -> None:
            terms = Terms(2_000, None, {company.vision.pk: 2_000})
            counter(pk, terms, note="", if_match=state_tag(self.now()), actor=dora, now=NOW)

        def last() -> int:
            return self.now().offers.count() or 1

        return {
            "bob approves": lambda: approved(self.request, bob, gives),
            "dora approves": lambda: approved(self.request, dora, gives),
            "dan approves": lambda: approved(self.request, dan, gives),
            "dora offers": offer,
            "bob accepts": lambda: accept_offer(pk, last(), actor=bob, now=NOW),
            "dora accepts": lambda: accept_offer(pk, last(), actor=dora, now=NOW),
            "bob declines": lambda: decline_offer(pk, last(), actor=bob, now=NOW),
            "dan rejects": lambda: reject(pk, note="no", actor=dan, now=NOW),
            "bob withdraws": lambda: withdraw(pk, actor=bob, now=NOW),
            "dora loses the role": lambda: self.revoke(),
            "the timer": lambda: expire_requests(LATER),
        }

    def revoke(self) -> None:
        grants = RoleGrant.objects.filter(user=self.deciders[0])
        if not grants.update(node=self.company.production):
            raise AssertionError("dora has a role")

    def state(self) -> tuple[object, ...]:
        """All that the outcome of an action depends on; of counter-offers, up to two."""
        now = self.now()
        offers = min(now.offers.count(), 2)
        rights = tuple(self.has_right(user) for user in self.deciders)
        return now.status, now.open_offer is not None, offers, now.decided_by_id, rights

    def has_right(self, user: User) -> bool:
        return RoleGrant.objects.filter(user=user, node=self.company.research).exists()


def test_no_order_applies_a_change_without_one_approval() -> None:
    """The search goes on from each new state.

    Against: an offer accepted without its maker's right; an approval after a withdrawal; two
    approvals.
    """
    company = a_company()
    bob = an_actor(company.nlp, Role.RESEARCHER, "bob")
    deciders = tuple(
        an_actor(company.research, Role.DEPARTMENT_ADMIN, name).user for name in ("dora", "dan")
    )
    scene = Scene(company, asked(bob), bob.user, (deciders[0], deciders[1]))
    seen = {scene.state()}

    def go_on() -> None:
        for name in scene.actions():
            before = scene.now()
            had_right = {user.pk for user in scene.deciders if scene.has_right(user)}
            point = transaction.savepoint()
            try:
                scene.actions()[name]()
            except PortalError:
                after = scene.now()
                assert (after.status, after.version) == (before.status, before.version), name
                transaction.savepoint_rollback(point)
                continue
            after = scene.now()
            check(before, after, had_right)
            if (state := scene.state()) not in seen:
                seen.add(state)
                go_on()
            transaction.savepoint_rollback(point)

    def check(before: ChangeRequest, after: ChangeRequest, had_right: set[object]) -> None:
        is_approved = after.status == "approved"
        applied = list(PlannedChange.objects.filter(status="applied"))
        assert applied == ([after.planned] if is_approved else [])
        gpus = Quota.objects.get(node=company.nlp).guaranteed_mgpu
        given = applied[0].edits.get(quota__node=company.nlp).values if applied else {}
        assert gpus == given.get("guaranteed_mgpu", 8_000)
        if before.status not in OPEN:
            assert (after.status, after.decided_by_id) == (before.status, before.decided_by_id)
        elif is_approved:
            assert after.decided_by_id in had_right

    with transaction.atomic():
        go_on()
    assert {state[0] for state in seen} == {
        "pending",
        "countered",
        "approved",
        "rejected",
        "withdrawn",
        "expired",
    }
