"""Fields take their own JSON type only, and a body no field that nobody reads."""

from typing import Any

import pytest
from django.test import RequestFactory
from rest_framework import serializers
from rest_framework.request import Request

from primitives.errors import PreconditionFailed, PreconditionRequired
from webapi.preconditions import etag_of, refuse_stale, required_version
from webapi.serializers import (
    BoundedListField,
    StrictSerializer,
    TextField,
    WholeNumberField,
    YesOrNoField,
    answers,
    page_of,
)


class ThingSerializer(StrictSerializer):
    """A body for these tests."""

    name = TextField(required=False, max_length=5)
    count = WholeNumberField(required=False, min_value=-(2**63), max_value=2**63 - 1)
    is_on = YesOrNoField(required=False)
    made = serializers.CharField(read_only=True)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "abc"},
        {"name": " a "},
        {"count": 0},
        {"count": 2**63 - 1},
        {"count": -(2**63)},
        {"is_on": True},
        {"is_on": False},
    ],
)
def test_good_bodies_come_through_unchanged(body: dict[str, Any]) -> None:
    thing = ThingSerializer(data=body)
    assert thing.is_valid(), thing.errors
    assert thing.validated_data == body


@pytest.mark.parametrize(
    "body",
    [
        {"name": 5},
        {"name": True},
        {"name": None},
        {"name": ["a"]},
        {"name": ""},
        {"name": "abcdef"},
        {"name": "a\x00"},
        {"name": "\ud800"},
        {"count": "5"},
        {"count": 5.0},
        {"count": True},
        {"count": None},
        {"count": 2**63},
        {"count": float("inf")},
        {"is_on": 1},
        {"is_on": "true"},
        {"is_on": None},
        {"made": "x"},
        {"other": 1},
        {"x" * 100_000: 1},
        [],
        "x",
        None,
    ],
)
def test_other_bodies_are_refused(body: Any) -> None:
    thing = ThingSerializer(data=body)
    assert not thing.is_valid()
    assert len(str(thing.errors)) < 1000


def test_a_page_is_described_once() -> None:
    assert page_of(ThingSerializer) is page_of(ThingSerializer)
    assert set(page_of(ThingSerializer).fields) == {"items", "next"}


def test_refusals_are_described_as_problems() -> None:
    described = answers({200: ThingSerializer}, 404)
    assert set(described) == {
        200,
        *((status, "application/problem+json") for status in (400, 401, 404, 429)),
    }


def test_of_a_list_that_is_too_long_no_element_is_looked_at() -> None:
    """Planted: the length is looked at last."""

    class Counting(TextField):
        seen = 0

        def to_internal_value(self, data: Any) -> str:
            Counting.seen += 1
            return super().to_internal_value(data)

    field = BoundedListField(child=Counting(), max_length=2)
    assert field.run_validation(["a", "b"]) == ["a", "b"]
    assert Counting.seen == 2
    with pytest.raises(serializers.ValidationError) as refusal:
        field.run_validation([1, 2, 3])
    assert refusal.value.detail == ["Ensure this field has no more than 2 elements."]
    assert Counting.seen == 2


def with_if_match(value: str | None) -> Request:
    headers = {} if value is None else {"If-Match": value}
    return Request(RequestFactory().patch("/", headers=headers))


def test_a_version_is_read_back_from_its_etag() -> None:
    assert etag_of(3) == '"v3"'
    assert required_version(with_if_match(etag_of(3))) == 3
    refuse_stale(3, 3, body={})
    with pytest.raises(PreconditionFailed) as refusal:
        refuse_stale(2, 3, body={"version": 3})
    assert refusal.value.data["current"] == {"version": 3}


@pytest.mark.parametrize(
    "value", ["*", "v3", '"3"', 'W/"v3"', '"v3", "v4"', '"v３"', '"v' + "9" * 10 + '"']
)
def test_what_is_no_etag_of_ours_is_refused(value: str) -> None:
    with pytest.raises(PreconditionFailed):
        required_version(with_if_match(value))


def test_if_match_must_be_there() -> None:
    with pytest.raises(PreconditionRequired):
        required_version(with_if_match(None))
