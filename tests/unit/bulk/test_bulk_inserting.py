"""Rows inserted by one JSON parameter are the rows that Django would have stored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DataError, transaction
from uuid_utils.compat import uuid7

from builders.loop_builders import a_job
from builders.portal_builders import NOW, a_company, a_user
from bulk.inserting import columns_of, insert_rows
from jobs.models import Attempt, Job, JobEvent
from outbox.models import Message

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    company = a_company()
    return a_job(company.nlp, a_user(company.organization, "bob"), company.pool, now=NOW)


def a_message(**values: object) -> dict[str, object]:
    at = NOW + timedelta(microseconds=7)
    return {"kind": "k", "subject": uuid7(), "shard": "s", "created_at": at, "due_at": NOW} | values


def test_every_value_comes_back_as_it_was_given_and_the_rest_is_the_default() -> None:
    given = a_message(shard="naïve \"q\" 'q' \\ \n %s")
    (pk,) = insert_rows(Message, [given])
    stored = columns_of(Message.objects.get(pk=pk))
    rest = {"sends": 0, "sent_at": None, "done_at": None, "error": ""}
    assert stored == given | rest | {"id": pk}


def test_an_object_is_stored_as_bulk_create_stores_it(job: Job) -> None:
    cluster_id = a_company("other").cluster.id

    def an_attempt(number: int) -> Attempt:
        return Attempt(
            job=job, number=number, cluster_id=cluster_id, slots=[{"node": "n", "mgpu": 2**53 + 1}],
            mgpu=10**10, guaranteed_mgpu=1, state="ended", epoch=2**62, granted_at=NOW,
            ended_at=NOW, released_at=NOW, exit_codes={"0": None},
        )  # fmt: skip

    ours, theirs = an_attempt(1), an_attempt(2)
    assert insert_rows(Attempt, [columns_of(ours)]) == [ours.id]
    Attempt.objects.bulk_create([theirs])
    ours.refresh_from_db()
    theirs.refresh_from_db()
    differ = {"id", "number"}
    assert {k: v for k, v in columns_of(ours).items() if k not in differ} == {
        k: v for k, v in columns_of(theirs).items() if k not in differ
    }


def test_rows_get_ascending_ids_in_the_order_given(job: Job) -> None:
    """Planted: rows inserted in reverse; dies here."""
    rows = [{"job_id": job.id, "at": NOW, "event": f"e{n}", "detail": {}} for n in range(50)]
    ids = insert_rows(JobEvent, rows)
    assert ids == sorted(ids)
    assert list(JobEvent.objects.order_by("id").values_list("event", flat=True)) == [
        f"e{n}" for n in range(50)
    ]


def test_a_row_in_conflict_is_passed_over_where_that_is_wished() -> None:
    first, other = a_message(), a_message()
    (pk,) = insert_rows(Message, [first])
    kept = insert_rows(Message, [first | {"shard": "new"}, other], ignore_conflicts=True)
    assert len(kept) == 1
    assert Message.objects.get(pk=pk).shard == "s"
    assert Message.objects.count() == 2


def test_text_that_is_too_long_is_refused_and_not_cut() -> None:
    with pytest.raises(DataError, match="too long"), transaction.atomic():
        insert_rows(Message, [a_message(kind="k" * 33)])


def test_a_name_that_is_no_column_and_a_missing_key_are_refused(job: Job) -> None:
    with pytest.raises(ValueError, match="Message has no column colour"):
        insert_rows(Message, [a_message(colour="red")])
    with pytest.raises(ValueError, match="every new Attempt needs its own id"):
        insert_rows(Attempt, [{"job_id": job.id}])


def test_nothing_is_nothing() -> None:
    assert insert_rows(Message, []) == []


def test_what_is_the_same_in_all_rows_is_told_once() -> None:
    """Also before the default of its column. Planted: the default kept."""
    kinds = [{"kind": kind, "subject": a_message()["subject"], "shard": "s"} for kind in "ab"]
    same = {"created_at": NOW, "due_at": NOW, "sends": 3, "error": "none"}
    insert_rows(Message, kinds, same=same)
    stored = Message.objects.order_by("id").values_list("kind", "sends", "error", "due_at")
    assert list(stored) == [("a", 3, "none", NOW), ("b", 3, "none", NOW)]
    with pytest.raises(ValueError, match="Message has no column colour"):
        insert_rows(Message, kinds, same={"colour": "red"})
