"""Query parameters: what a declaration reads, refuses and says in OpenAPI."""

from __future__ import annotations

import ast
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from primitives.errors import InvalidRequest
from webapi.paging import refuse_unknown_parameters
from webapi.parameters import (
    PageParameters,
    Parameters,
    choice,
    day,
    flag,
    several,
    text,
    time,
    uuid,
    whole,
)

REPO = Path(__file__).resolve().parents[3]
ID = "0193508e-2f4c-7000-8000-000000000001"


class Tides(PageParameters):
    """Every kind of parameter."""

    name: str | None = text("A name", most=3)
    port: str = text("A port", required="give the name of a port")
    kind: str = choice(("ebb", "flood"), "Which", default="ebb")
    moons: frozenset[str] | None = several(("new", "full"))
    is_spring: bool = flag()
    height: int | None = whole(low=-9, high=9)
    moon: UUID | None = uuid()
    on: date | None = day()
    since: datetime | None = time(is_in_seconds=True)


class Named(Parameters):
    """No list: one parameter."""

    name: str | None = text()


def a_request(query: str = "") -> Request:
    return Request(RequestFactory().get("/api/v1/tides" + query))


def refusal_of(declared: type[Parameters], query: str) -> tuple[str, list[tuple[str, str]]]:
    with pytest.raises(InvalidRequest) as refusal:
        declared.read(a_request(query))
    return refusal.value.detail, [(one.pointer, one.detail) for one in refusal.value.errors]


def test_what_is_not_given_has_its_default() -> None:
    assert Tides.read(a_request("?port=a")) == Tides(port="a")
    asked = Tides(port="a")
    assert (asked.limit, asked.cursor, asked.name, asked.kind) == (50, None, None, "ebb")
    assert (asked.moons, asked.is_spring, asked.height) == (None, False, None)


def test_what_is_given_is_read() -> None:
    query = (
        f"?port=b&name=abc&kind=flood&moons=new,full&is_spring=true&height=-9&moon={ID}"
        "&on=2026-11-21&since=2026-11-21T13:00:00%2B01:00&limit=500&cursor=x"
    )
    assert Tides.read(a_request(query)) == Tides(
        port="b",
        name="abc",
        kind="flood",
        moons=frozenset({"new", "full"}),
        is_spring=True,
        height=-9,
        moon=UUID(ID),
        on=date(2026, 11, 21),
        since=datetime(2026, 11, 21, 12, tzinfo=UTC),
        limit=500,
        cursor="x",
    )


@pytest.mark.parametrize(
    ("query", "detail", "error"),
    [
        ("", "port is required: give the name of a port.", "is required"),
        ("?port=", "port is required: give the name of a port.", "is required"),
        ("?port=a&name=", "name must have 1 to 3 characters.", "is empty or too long"),
        ("?port=a&name=abcd", "name must have 1 to 3 characters.", "is empty or too long"),
        ("?port=a&kind=", "kind must be one of ebb, flood.", "is none of them"),
        (
            "?port=a&moons=new,",
            "moons must be one or more of new, full, with commas between them.",
            "must be some of new, full",
        ),
        ("?port=a&is_spring=1", "is_spring must be one of true, false.", "is none of them"),
        (
            "?port=a&height=10",
            "height must be a whole number from -9 to 9.",
            "must be from -9 to 9",
        ),
        ("?port=a&moon=x", "moon must be an id (UUID), not 'x'.", "is not an id"),
        ("?port=a&on=21.11.", "on must be a day such as 2026-11-21, not '21.11.'.", "is not a day"),
        (
            "?port=a&since=2026-11-21T12:00:00.5Z",
            "since must be in whole seconds.",
            "is not in whole seconds",
        ),
    ],
)
def test_what_is_said_of_a_wrong_one(query: str, detail: str, error: str) -> None:
    """Planted: a required text that may be empty; parts of a second let through."""
    said, errors = refusal_of(Tides, query)
    assert said == detail
    assert errors == [("/" + detail.split(" ")[0], error)]


@pytest.mark.parametrize(
    "limit", ["0", "501", "-1", "", "abc", "1.0", "\uff11", "1e2", "%2B1", " 1", "9" * 18, "0x1"]
)
def test_other_limits_are_refused(limit: str) -> None:
    """Planted: a limit of any digits of Unicode."""
    said, errors = refusal_of(PageParameters, f"?limit={limit}")
    assert said == "limit must be a whole number from 1 to 500."
    assert errors == [("/limit", "must be from 1 to 500")]


@pytest.mark.parametrize(
    "query",
    ["?nam=x", "?name=a&name=b", "?name=%00", "?Name=x", "?name[]=x", "?format=json", "?limit=5"],
)
def test_unknown_and_repeated_parameters_are_refused(query: str) -> None:
    said, _ = refusal_of(Named, query)
    assert said == "Unknown or repeated query parameters. Known here: name."
    with pytest.raises(InvalidRequest, match="Known here: none"):
        refuse_unknown_parameters(a_request(query), set())


def test_openapi_says_the_same() -> None:
    """Planted: the default left out; a required parameter that is not said to be one; bounds
    left out."""
    said = {one.name: one for one in Tides.in_openapi()}
    assert list(said) == [
        *("limit", "cursor", "name", "port", "kind", "moons", "is_spring"),
        *("height", "moon", "on", "since"),
    ]
    assert (said["port"].required, said["name"].required) == (True, False)
    assert (said["kind"].enum, said["kind"].default) == (["ebb", "flood"], "ebb")
    assert (said["kind"].description, said["limit"].default) == ("Which", 50)
    assert (said["moons"].style, said["moons"].explode) == ("form", False)
    assert said["name"].type == {"type": "string", "minLength": 1, "maxLength": 3}
    assert said["height"].type == {"type": "integer", "minimum": -9, "maximum": 9}


def test_no_endpoint_reads_its_query_by_hand() -> None:
    """Planted: a view that reads `query_params`; one with a set of names of its own."""
    found = set()
    for name in ("billing", "jobs", "quotas", "tenants", "platform"):
        for path in (REPO / name).rglob("*.py"):
            words = path.read_text()
            # SCIM has parameters, and errors, of its own.
            if (
                path.name == "scim_views.py"
                or path.is_relative_to(REPO / "platform/webapi")
                or ("query_params" not in words and "refuse_unknown_parameters" not in words)
            ):
                continue
            found |= {
                f"{path.relative_to(REPO)}: {ast.unparse(node)}"
                for node in ast.walk(ast.parse(words))
                if is_by_hand(node)
            }
    assert found == set()


def is_by_hand(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "refuse_unknown_parameters":
        return ast.unparse(node.args[1]) != "set()"
    return isinstance(node, ast.Attribute) and node.attr == "query_params"
