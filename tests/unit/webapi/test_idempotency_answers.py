"""One key, one answer, kept for two days."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from builders.portal_builders import NOW
from primitives.errors import Conflict, IdempotencyKeyReused, InvalidRequest
from webapi.idempotency import answer_once, fingerprint_of, forget_old_answers, idempotency_key
from webapi.models import IdempotentAnswer
from webapi.parsers import StrictJsonParser

ALICE, BOB = UUID(int=1), UUID(int=2)


class Act:
    """Counts how often it ran."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self) -> tuple[int, dict[str, Any]]:
        self.runs += 1
        return 201, {"run": self.runs}


def once(act: Any, *, who: UUID = ALICE, key: str | None = "k", body: bytes = b"1") -> Any:
    return answer_once(principal_id=who, key=key, fingerprint=body * 32, now=NOW, act=act)


@pytest.mark.django_db
def test_the_second_time_is_a_replay() -> None:
    act = Act()
    assert once(act) == (201, {"run": 1}, False)
    assert once(act) == (201, {"run": 1}, True)
    assert act.runs == 1


@pytest.mark.django_db
def test_without_a_key_each_request_acts() -> None:
    act = Act()
    assert [once(act, key=None) for _ in range(2)] == [
        (201, {"run": 1}, False),
        (201, {"run": 2}, False),
    ]
    assert IdempotentAnswer.objects.count() == 0


@pytest.mark.django_db
def test_another_body_is_refused_and_another_principal_is_not() -> None:
    act = Act()
    once(act)
    with pytest.raises(IdempotencyKeyReused):
        once(act, body=b"2")
    assert once(act, who=BOB) == (201, {"run": 2}, False)


@pytest.mark.django_db
def test_a_refusal_stores_nothing() -> None:
    def refuse() -> tuple[int, dict[str, Any]]:
        raise Conflict("no")

    with pytest.raises(Conflict):
        once(refuse)
    assert once(Act()) == (201, {"run": 1}, False)


@pytest.mark.django_db
def test_answers_are_forgotten_after_48_hours_a_few_at_a_time() -> None:
    for key in ("a", "b", "c"):
        once(Act(), key=key)
    assert forget_old_answers(now=NOW + timedelta(hours=48)) == 0
    after = NOW + timedelta(hours=48, seconds=1)
    assert forget_old_answers(now=after, limit=2) == 2
    assert forget_old_answers(now=after) == 1


def a_request(key: str | None = None, body: bytes = b'{"a": 1}', query: str = "") -> Request:
    headers = {} if key is None else {"Idempotency-Key": key}
    request = RequestFactory().post(
        "/x" + query, body, content_type="application/json", headers=headers
    )
    return Request(request, parsers=[StrictJsonParser()])


def test_the_fingerprint_is_the_same_before_and_after_parsing_and_differs_by_what_is_sent() -> None:
    before = fingerprint_of(a_request())
    parsed = a_request()
    assert parsed.data == {"a": 1}
    assert fingerprint_of(parsed) == before
    assert (
        len({before, fingerprint_of(a_request(body=b"{}")), fingerprint_of(a_request(query="?a"))})
        == 3
    )


@pytest.mark.parametrize("key", [None, "k", "x" * 255, "!~"])
def test_good_keys(key: str | None) -> None:
    assert idempotency_key(a_request(key)) == key


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "é", "a\t"])
def test_bad_keys(key: str) -> None:
    with pytest.raises(InvalidRequest):
        idempotency_key(a_request(key))
