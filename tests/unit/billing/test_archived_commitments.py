"""Commitments of teams that were archived for some time: that time is never billed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from billing.spending import Span, spent_in
from builders.billing_builders import a_rate_card, at, terms_of
from builders.portal_builders import Company, a_company, an_actor
from quotas.guarantees import Guarantee, guarantees_in
from tenants.access import Actor
from tenants.models import FormerArchiving, Node
from tenants.roles import Role
from tenants.structure import archive_node, locked_node_to_archive, restore_node

pytestmark = pytest.mark.django_db

HOUR = 3_600
EURO = 10**9


@pytest.fixture
def company() -> Company:
    """Nlp has a guarantee of 8 GPUs, each committed at 1 EUR an hour."""
    company = a_company()
    terms_of(a_rate_card(company.organization, {"guaranteed": EURO}), "commitment", start=0)
    return company


@pytest.fixture
def alice(company: Company) -> Actor:
    return an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")


def archived(actor: Actor, node: Node, second: int) -> None:
    with transaction.atomic():
        archive_node(actor=actor, node=locked_node_to_archive(actor, node.pk), now=at(second))


def hours_billed(company: Company, first: int, last: int) -> list[int]:
    """The cost of nlp's commitment in EUR, by hour."""
    return [
        sum(
            spent.cost_nano
            for spent in spent_in(
                [Span(company.nlp.pk, at(hour * HOUR), at((hour + 1) * HOUR))], [company.pool.pk]
            )
        )
        // EURO
        for hour in range(first, last)
    ]


def test_a_restore_bills_no_time_of_the_archiving(company: Company, alice: Actor) -> None:
    """Nlp is archived for hours 1 and 2 with its department, and for hour 4 alone.

    Planted: the present archiving alone, so that a restore bills all eight hours.
    """
    archived(alice, company.research, HOUR)
    assert hours_billed(company, 0, 8) == [8, 0, 0, 0, 0, 0, 0, 0]
    restore_node(actor=alice, node_id=company.research.pk, now=at(3 * HOUR))
    assert hours_billed(company, 0, 8) == [8, 0, 0, 8, 8, 8, 8, 8]
    archived(alice, company.nlp, 4 * HOUR)
    restore_node(actor=alice, node_id=company.nlp.pk, now=at(5 * HOUR))
    archived(alice, company.nlp, 7 * HOUR)
    assert hours_billed(company, 0, 8) == [8, 0, 0, 8, 0, 8, 8, 0]
    found = guarantees_in(company.organization.pk, company.pool.pk, at(0), at(8 * HOUR))
    assert found[company.nlp.pk] == Guarantee(8_000, 4 * 8_000 * HOUR, 4 * 8_000 * HOUR)


def test_spans_end_and_begin_to_the_second(company: Company, alice: Actor) -> None:
    archived(alice, company.nlp, 100)
    restore_node(actor=alice, node_id=company.nlp.pk, now=at(150) + timedelta(milliseconds=300))
    found = guarantees_in(company.organization.pk, company.pool.pk, at(0), at(HOUR))
    assert found[company.nlp.pk].guaranteed_mgpu_s == 8_000 * (HOUR - 50)


def test_the_database_keeps_former_archivings(company: Company, alice: Actor) -> None:
    """A restore without a row, a change or deletion of a row, and a negative length are refused."""

    def refused(law: str, act: object) -> None:
        with pytest.raises(IntegrityError) as refusal, transaction.atomic():
            act()  # type: ignore[operator]
        assert refusal.value.__cause__.diag.constraint_name == law  # type: ignore[union-attr]

    nodes = Node.objects.filter(pk=company.nlp.pk)
    archived(alice, company.nlp, HOUR)
    refused("tree_node_keeps_its_archivings", lambda: nodes.update(archived_at=None))
    refused("tree_node_keeps_its_archivings", lambda: nodes.update(archived_at=at(0)))
    restore_node(actor=alice, node_id=company.nlp.pk, now=at(2 * HOUR))
    row = FormerArchiving.objects.get()
    assert (row.node, row.start, row.end) == (company.nlp, at(HOUR), at(2 * HOUR))
    refused("former_archiving_is_kept", lambda: FormerArchiving.objects.update(end=at(0)))
    refused("former_archiving_is_kept", row.delete)
    refused(
        "former_archiving_ends_after_its_start",
        lambda: FormerArchiving.objects.create(node=company.nlp, start=at(1), end=at(0)),
    )
