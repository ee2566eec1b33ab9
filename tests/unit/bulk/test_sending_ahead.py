"""Statements that are sent ahead run like others."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from bulk.sending import sent_ahead
from live.waking import wake

pytestmark = pytest.mark.django_db

NEW_ROLE = "INSERT INTO jobs_leadership (role, epoch, holder) VALUES (%s, %s, '')"


def roles() -> list[tuple[str, int]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT role, epoch FROM jobs_leadership ORDER BY role")
        return list(cursor.fetchall())


def test_all_have_run_at_the_end_and_results_are_those_of_their_statements() -> None:
    with sent_ahead(), connection.cursor() as first, connection.cursor() as second:
        first.execute(NEW_ROLE + " RETURNING epoch", ["a", 1])
        second.execute(NEW_ROLE + " RETURNING epoch", ["b", 2])
        wake("observer")
        assert second.fetchall() == [(2,)]
        assert first.fetchall() == [(1,)]
        with transaction.atomic(), connection.cursor() as third:
            third.execute(NEW_ROLE, ["c", 3])
    assert roles() == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("is_last", [True, False], ids=["at the end", "by who asks"])
def test_what_fails_is_told_as_elsewhere_and_nothing_after_it_runs(is_last: bool) -> None:
    """With a later statement, if the answer has come by then, or at the end. Planted: the error of
    the driver told."""
    with pytest.raises(IntegrityError, match="jobs_leadership_pkey"):
        send_one_that_fails(is_last=is_last)
    assert roles() == []


@transaction.atomic
def send_one_that_fails(*, is_last: bool) -> None:
    with sent_ahead(), connection.cursor() as cursor:
        cursor.execute(NEW_ROLE, ["a", 1])
        cursor.execute(NEW_ROLE, ["a", 2])
        if not is_last:
            with transaction.atomic():
                cursor.execute(NEW_ROLE + " RETURNING epoch", ["b", 3])
                cursor.fetchall()
                pytest.fail("asked for the result of what did not run")
