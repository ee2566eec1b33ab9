"""Two people decide for the same planned change at once, and the timer runs twice: one wins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction

from builders.connector_builders import eventually
from builders.parallel import in_thread, somebody_waits_for_a_lock
from builders.portal_builders import NOW, Company, a_company, an_actor
from primitives.errors import Conflict, PreconditionFailed
from quotas.administration import QuotaEdit
from quotas.models import PlannedChange, Quota, QuotaChange
from quotas.planned_changes import apply_planned, carry_out_due, draft_change
from quotas.planned_reading import etag_of_planned
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30
HOUR = timedelta(hours=1)


def drafted(company: Company, actor: Actor, **times: Any) -> PlannedChange:
    return draft_change(
        [(Quota.objects.get(node=company.nlp).pk, QuotaEdit(guaranteed_mgpu=6_000))],
        reason="because",
        actor=actor,
        now=NOW,
        **{"apply_at": None, "revert_after_s": None, **times},
    )


@pytest.mark.parametrize(
    ("is_another", "refusal", "words"),
    [
        (True, PreconditionFailed, "has changed since you looked"),
        (False, Conflict, "was already applied"),
    ],
)
def test_of_two_applies_at_once_the_second_waits_and_is_refused(
    is_another: bool, refusal: type[Exception], words: str
) -> None:
    """It waits for the change's row, or where it is another change for the quotas; then the tree is
    another one, or the change no draft any more.

    Planted: the ETag not compared; the status not looked at."""
    company = a_company()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    planned = drafted(company, admin)
    other = drafted(company, admin) if is_another else planned
    etag, etag_of_other = etag_of_planned(planned), etag_of_planned(other)
    first_has_applied = Event()

    def second() -> None:
        assert first_has_applied.wait(WAIT_S)
        apply_planned(other.pk, if_match=etag_of_other, actor=admin, now=NOW)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            later = in_thread(pool, second)
            apply_planned(planned.pk, if_match=etag, actor=admin, now=NOW)
            first_has_applied.set()
            eventually(somebody_waits_for_a_lock)
        with pytest.raises(refusal, match=words):
            later.result(WAIT_S)

    assert QuotaChange.objects.count() == 1
    planned.refresh_from_db()
    assert (planned.status, planned.version) == ("applied", 2)


def test_of_two_rounds_at_once_one_carries_out_and_the_other_passes_by() -> None:
    """Planted: without skip_locked the second would wait for the first, and with it every round."""
    company = a_company()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    planned = drafted(company, admin, apply_at=NOW + HOUR)
    apply_planned(planned.pk, if_match=etag_of_planned(planned), actor=admin, now=NOW)

    def second() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")
        return carry_out_due(now=NOW + HOUR)

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        assert carry_out_due(now=NOW + HOUR) == 1
        assert in_thread(pool, second).result(WAIT_S) == 0

    assert QuotaChange.objects.count() == 1
