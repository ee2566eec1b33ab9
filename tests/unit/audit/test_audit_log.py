"""The audit log: only ever longer, and read by those who may."""

import csv
from datetime import timedelta
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction

from audit.models import AuditEvent
from audit.recording import record
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.portal_builders import NOW
from tenants.audit_export import COLUMNS
from tenants.models import Node

pytestmark = pytest.mark.django_db


def an_event(node: Node | None, action: str = "tested", *, after_s: int = 0) -> AuditEvent:
    return record(
        action=action,
        subject_kind="thing",
        subject_id="42",
        now=NOW + timedelta(seconds=after_s),
        actor="alice@ai-company",
        organization_id=node.organization_id if node is not None else None,
        node_path=node.path if node is not None else "",
        detail={"n": 1},
        request_id="r-1",
    )


def seen(user: Any, query: str = "", scopes: Any = ("admin",)) -> list[str]:
    answer = by_token(user, scopes).get("audit-events" + query)
    assert answer.status_code == 200
    return [item["action"] for item in answer.json()["items"]]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_auditevent SET actor = 'somebody else'",
        "DELETE FROM audit_auditevent",
    ],
)
def test_an_event_is_never_changed_or_deleted(statement: str) -> None:
    an_event(None)
    with (
        pytest.raises(IntegrityError) as refusal,
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert refusal.value.__cause__.diag.constraint_name == (  # type: ignore[union-attr]
        "audit_auditevent_is_append_only"
    )
    assert AuditEvent.objects.get().actor == "alice@ai-company"


def test_not_even_the_owner_empties_the_log(owner_connection: "psycopg.Connection[Any]") -> None:
    an_event(None)
    with pytest.raises(psycopg.errors.IntegrityError, match="append-only: TRUNCATE refused"):
        owner_connection.execute("TRUNCATE audit_auditevent")
    owner_connection.rollback()
    assert AuditEvent.objects.count() == 1


def test_an_event_is_rendered() -> None:
    cast = a_cast()
    event = an_event(cast.nlp)
    answer = by_token(cast.alice).get("audit-events")
    assert answer.json() == {
        "items": [
            {
                "id": str(event.pk),
                "at": "2026-11-21T12:00:00Z",
                "actor": "alice@ai-company",
                "action": "tested",
                "subject": {"kind": "thing", "id": "42"},
                "organization": "ai-company",
                "node": "ai-company/research/nlp",
                "detail": {"n": 1},
                "request_id": "r-1",
            }
        ],
        "next": None,
    }


def everywhere(cast: Cast) -> None:
    for number, node in enumerate(
        (None, cast.organization, cast.research, cast.nlp, cast.production, cast.rival_team)
    ):
        an_event(node, node.slug if node is not None else "platform", after_s=number)


def refused(user: Any, scopes: Any = ("admin",), query: str = "") -> tuple[int, str]:
    answer = by_token(user, scopes).get("audit-events" + query)
    return answer.status_code, answer.json()["detail"]


def test_who_reads_what() -> None:
    """Planted: an empty list, or a CSV of its header alone, for people without any right to it."""
    cast = a_cast()
    everywhere(cast)
    assert seen(cast.root) == ["team", "production", "nlp", "research", "ai-company", "platform"]
    for user in (cast.alice, cast.auditor):
        assert seen(user) == ["production", "nlp", "research", "ai-company"]
    assert seen(cast.research_admin) == ["nlp", "research"]
    assert seen(cast.production_admin) == ["production"]
    assert seen(cast.charlie) == ["team"]
    for user in (cast.nlp_lead, cast.bob, cast.finance, cast.service, cast.dave):
        for query in ("", "?format=csv"):
            assert refused(user, query=query) == (
                403,
                "The audit log is for auditors and administrators. Ask one of them.",
            )
    for scopes in ([], ["read"], ["jobs"], ["quotas"], ["reports"]):
        assert refused(cast.alice, scopes) == (
            403,
            "The audit log needs a token with the scope admin.",
        )


def test_filters_narrow_and_never_widen() -> None:
    cast = a_cast()
    everywhere(cast)
    assert seen(cast.root, "?organization=rival-lab") == ["team"]
    assert seen(cast.alice, "?organization=rival-lab") == []
    assert seen(cast.alice, "?organization=ai") == []
    assert seen(cast.alice, "?organization=") == []
    assert seen(cast.alice, "?action=nlp") == ["nlp"]
    assert seen(cast.alice, "?action=team") == []
    assert seen(cast.alice, "?since=2026-11-21T12:00:03Z") == ["production", "nlp"]
    assert seen(cast.alice, "?since=2026-11-21T13:00:04%2B01:00") == ["production"]


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "since=2026-11-21",
        "since=2026-11-21T12:00:00",
        "since=",
        "user=bob",
        "since=0001-01-01T00:00:00%2B14:00",
        "since=9999-12-31T23:59:59-14:00",
        "action=a&action=b",
        "since=２０２６-11-21T12:00:00Z",
        "action=%00",
        "limit=0",
        "limit=501",
        "cursor=x",
    ],
)
def test_bad_parameters_are_refused(query: str) -> None:
    cast = a_cast()
    assert by_token(cast.alice).get("audit-events?" + query).status_code == 400


def test_the_log_of_an_organization_is_paged_newest_first() -> None:
    cast = a_cast()
    for number in range(5):
        an_event(cast.nlp, f"act-{number}")
    answer = by_token(cast.alice).get("audit-events?limit=3").json()
    assert [item["action"] for item in answer["items"]] == ["act-4", "act-3", "act-2"]
    assert seen(cast.alice, answer["next"].removeprefix("/api/v1/audit-events")) == [
        "act-1",
        "act-0",
    ]
    assert seen(cast.charlie, answer["next"].removeprefix("/api/v1/audit-events")) == []


def test_filters_by_actor_object_and_time() -> None:
    """Against: until of the time itself, too (dies on the second)."""
    cast = a_cast()
    everywhere(cast)
    record(
        action="team_created",
        subject_kind="team",
        subject_id=cast.nlp.pk,
        now=NOW + timedelta(seconds=9),
        actor="root",
        organization_id=cast.organization.pk,
        node_path=cast.nlp.path,
    )
    assert seen(cast.auditor, "?actor=root") == ["team_created"]
    assert seen(cast.auditor, "?until=2026-11-21T12:00:02Z") == ["ai-company"]
    assert seen(cast.auditor, "?subject_kind=team") == ["team_created"]
    assert seen(cast.auditor, f"?subject_kind=team&subject_id={cast.nlp.pk}") == ["team_created"]
    assert seen(cast.auditor, "?subject_kind=team&subject_id=42") == []
    assert seen(cast.charlie, "?actor=root") == []


def csv_rows(user: Any, query: str = "") -> list[list[str]]:
    answer = by_token(user).get(f"audit-events?format=csv{query}")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/csv; charset=utf-8")
    return list(csv.reader(StringIO(answer.content.decode())))


def test_an_export_has_what_matches_and_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Actors and names are of people: what a spreadsheet would run begins with an apostrophe.

    Against: cells as they are; the list of another organization."""
    cast = a_cast()
    everywhere(cast)
    record(
        action="team_renamed",
        subject_kind="team",
        subject_id="=1+1",
        now=NOW + timedelta(seconds=9),
        actor="@SUM(A1)",
        organization_id=cast.organization.pk,
        node_path=cast.nlp.path,
        detail={"after": "=HYPERLINK()"},
    )
    header, first, *rest = csv_rows(cast.auditor)
    assert header == list(COLUMNS)
    assert first[:8] == [
        "2026-11-21T12:00:09+00:00",
        "'@SUM(A1)",
        "team_renamed",
        "team",
        "'=1+1",
        "ai-company",
        "ai-company/research/nlp",
        '{"after": "=HYPERLINK()"}',
    ]
    assert [row[2] for row in rest] == ["production", "nlp", "research", "ai-company"]
    assert [row[2] for row in csv_rows(cast.auditor, "&action=nlp")] == ["action", "nlp"]
    monkeypatch.setattr("tenants.audit_export.EXPORT_MAX", 4)
    too_many = by_token(cast.auditor).get("audit-events?format=csv")
    assert too_many.status_code == 400
    assert too_many.json()["detail"].startswith("More than 4 events match. Narrow the time")
    assert by_token(cast.auditor).get("audit-events?format=csv&limit=3").status_code == 400
