"""Statements that are issued at once get numbers without gaps, and no charge gets two."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from builders.billing_builders import a_metered_attempt, a_rate_card
from builders.parallel import in_thread, somebody_waits_for_a_lock
from builders.period_builders import DUE, close
from builders.portal_builders import a_company, an_actor
from periods.statement_models import Statement
from periods.statements import Unit, issue_statements
from primitives.errors import Conflict
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("is_rolled_back", [False, True])
def test_a_second_issue_waits_for_the_first(is_rolled_back: bool) -> None:
    """After a rollback of the first one, the second gets its charges and its number.

    Against: no lock on the organization, so that the second issue fails in the database."""
    company = a_company()
    a_rate_card(company.organization)
    fiona = an_actor(company.organization, Role.FINANCE, "fiona")
    a_metered_attempt(company.nlp)
    close(company, fiona, "2026-11", "known")

    def issue() -> list[str]:
        try:
            issued = issue_statements(
                company.organization.pk, "2026-11", Unit.TEAM, actor=fiona, now=DUE
            )
        except Conflict as refusal:
            return [refusal.detail]
        return [statement.number for statement in issued]

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            assert issue() == ["2026-00001"]
            other = in_thread(threads, issue)
            while not somebody_waits_for_a_lock():
                assert not other.done()
            transaction.set_rollback(is_rolled_back)
        second = other.result(60)
    if is_rolled_back:
        assert second == ["2026-00001"]
    else:
        assert second == ["All charges of 2026-11 have a statement. Credit one to issue it anew."]
    assert [one.number for one in Statement.objects.all()] == ["2026-00001"]
