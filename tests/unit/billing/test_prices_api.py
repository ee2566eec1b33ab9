"""Prices over REST: shapes, rights, and input that nobody should send."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from uuid_utils.compat import uuid7

from audit.models import AuditEvent
from billing.models import RateCard, RateLine
from builders.api_callers import Caller, by_token
from builders.bad_texts import BAD_TEXTS
from builders.billing_builders import a_rate_card
from builders.portal_builders import Company, a_company, an_actor, an_organization
from tenants.roles import Role

pytestmark = pytest.mark.django_db


def finance_of(company: Company) -> Caller:
    return by_token(an_actor(company.organization, Role.FINANCE, "fin").user)


def charlie() -> Caller:
    return by_token(an_actor(an_organization("elsewhere"), Role.ORGANIZATION_ADMIN, "charlie").user)


def tomorrow() -> str:
    return f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"


def test_a_stranger_sees_and_changes_no_prices() -> None:
    company = a_company()
    card = a_rate_card(company.organization)
    line = card.lines.first()
    assert line is not None
    stranger = charlie()
    assert stranger.get("rate-cards").json() == {"items": [], "next": None}
    price = {
        "pool": "h100",
        "usage_class": "borrowed",
        "price_nano": 1,
        "start": "2020-01-01T00:00:00Z",
        "end": "2020-01-02T00:00:00Z",
    }
    before = list(RateLine.objects.order_by("pk").values())
    for answer in (
        stranger.post("rate-cards", {"organization": "ai-company", "currency": "EUR"}),
        stranger.post(f"rate-cards/{card.pk}/lines", price),
        stranger.patch(f"rate-cards/{card.pk}/lines/{line.pk}", {"end": tomorrow()}),
    ):
        assert answer.status_code == 404, answer.content
        assert b"h100" not in answer.content
    assert list(RateLine.objects.order_by("pk").values()) == before


def test_a_list_of_prices_needs_the_right_and_the_scope() -> None:
    company = a_company()
    a_rate_card(company.organization)
    bob = by_token(an_actor(company.nlp, Role.RESEARCHER, "bob").user)
    assert bob.get("rate-cards").json()["items"] == []
    finance = an_actor(company.organization, Role.FINANCE).user
    assert by_token(finance, ["jobs"]).get("rate-cards").json()["items"] == []


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_no_parameter_breaks_a_list_of_prices(text: str) -> None:
    company = a_company()
    caller = finance_of(company)
    given = quote(text.encode("utf-8", "surrogatepass"))
    for path in (f"rate-cards?cursor={given}", f"rate-cards?{given}=1"):
        answer = caller.get(path)
        assert answer.status_code in {400, 404}, (path, answer.status_code, answer.content)
        assert answer["Content-Type"] == "application/problem+json"


def test_a_team_lead_sees_the_prices_of_the_own_organization_and_may_not_change_them() -> None:
    company = a_company()
    card = a_rate_card(company.organization)
    a_rate_card(an_organization("other"))
    lead = by_token(an_actor(company.nlp, Role.TEAM_LEAD).user)
    items = lead.get("rate-cards").json()["items"]
    assert [(item["organization"], item["currency"]) for item in items] == [("ai-company", "EUR")]
    assert [line["usage_class"] for line in items[0]["lines"]] == ["borrowed", "guaranteed"]
    price = {
        "pool": "h100",
        "usage_class": "borrowed",
        "price_nano": 1,
        "start": "2020-01-01T00:00:00Z",
        "end": "2020-01-02T00:00:00Z",
    }
    assert lead.post(f"rate-cards/{card.pk}/lines", price).status_code in {403, 404}
    assert RateLine.objects.filter(card=card).count() == 2


def test_finance_sets_prices() -> None:
    company = a_company()
    caller = finance_of(company)
    made = caller.post("rate-cards", {"organization": "ai-company", "currency": "CHF"})
    assert made.status_code == 201
    card = made.json()
    assert card == {
        "id": card["id"],
        "organization": "ai-company",
        "currency": "CHF",
        "time_zone": "UTC",
        "lines": [],
        "terms": [],
        "can_edit": True,
    }
    assert (
        caller.post("rate-cards", {"organization": "ai-company", "currency": "CHF"}).status_code
        == 409
    )
    lines = f"rate-cards/{card['id']}/lines"
    price = {
        "pool": "h100",
        "usage_class": "guaranteed",
        "price_nano": 2_000_000_000,
        "start": "2026-01-01T00:00:00Z",
    }
    line = caller.post(lines, price)
    assert line.status_code == 201
    assert line.json() == {
        "id": line.json()["id"],
        "device": "gpu",
        **price,
        "end": None,
        "added_at": line.json()["added_at"],
        "added_by": "fin@ai-company",
        "is_correction": True,
    }
    again = caller.post(lines, {**price, "start": "2026-06-01T00:00:00Z"})
    assert again.status_code == 409
    assert again.json()["conflicts_with"] == line.json()["id"]
    earlier = caller.post(lines, {**price, "start": "2025-01-01T00:00:00Z", "end": price["start"]})
    assert earlier.status_code == 201
    other_class = caller.post(lines, {**price, "usage_class": "borrowed"})
    assert other_class.status_code == 201
    own = f"{lines}/{line.json()['id']}"
    assert caller.patch(own, {"end": "2026-06-01T00:00:00Z"}).status_code == 409
    end = tomorrow()
    assert caller.patch(own, {"end": end}).json()["end"] == end
    assert caller.patch(own, {"end": "2098-01-01T00:00:00Z"}).status_code == 409
    assert caller.post(lines, {**price, "start": end}).status_code == 201
    assert [event.action for event in AuditEvent.objects.order_by("pk")] == [
        "rate_card.created",
        "rate_line.added",
        "rate_line.added",
        "rate_line.added",
        "rate_line.ended",
        "rate_line.added",
    ]
    assert len(caller.get("rate-cards").json()["items"][0]["lines"]) == 4


BAD_VALUES: list[Any] = [None, True, 1.5, "1", -1, 10**16, 10**29, [], {}, "\x00", "x" * 5_000, ""]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (field, value)
        for field in ("pool", "usage_class", "price_nano", "start", "end")
        for value in BAD_VALUES
        if (field, value) not in [("end", None), ("start", None)]  # which are good
    ],
    ids=repr,
)
def test_no_body_breaks_the_prices(field: str, value: Any) -> None:
    company = a_company()
    card = a_rate_card(company.organization, {})
    price = {
        "pool": "h100",
        "usage_class": "guaranteed",
        "price_nano": 5,
        "start": "2026-01-01T00:00:00Z",
        "end": "2027-01-01T00:00:00Z",
        field: value,
    }
    answer = finance_of(company).post(f"rate-cards/{card.pk}/lines", price)
    assert answer.status_code == 400, answer.content
    assert RateLine.objects.count() == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"organization": "ai-company/research", "currency": "EUR"}, 400),
        ({"organization": "ai-company", "currency": "eur"}, 400),
        ({"organization": "ai-company", "currency": "EU"}, 400),
        ({"organization": "ai-company", "currency": "ＥＵＲ"}, 400),
        ({"organization": "nowhere", "currency": "EUR"}, 404),
        ({"organization": 5, "currency": "EUR"}, 400),
        ({"organization": "ai-company"}, 400),
        ({"organization": "ai-company", "currency": "EUR", "lines": []}, 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b"", 400),
    ],
)
def test_no_body_breaks_the_rate_cards(body: Any, status: int) -> None:
    answer = finance_of(a_company()).post("rate-cards", body)
    assert answer.status_code == status, answer.content
    assert RateCard.objects.count() == 0


def test_absent_cards_and_lines_are_not_found() -> None:
    company = a_company()
    card = a_rate_card(company.organization)
    caller = finance_of(company)
    assert (
        caller.patch(f"rate-cards/{card.pk}/lines/{uuid7()}", {"end": tomorrow()}).status_code
        == 404
    )
    assert (
        caller.patch(f"rate-cards/{uuid7()}/lines/{uuid7()}", {"end": tomorrow()}).status_code
        == 404
    )
    assert caller.get("rate-cards/nonsense/lines").status_code == 404
