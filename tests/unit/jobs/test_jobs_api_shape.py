"""The answers are what OpenAPI says, and no odd input makes the server fail."""

from __future__ import annotations

from typing import Any

import pytest

from builders.api_callers import Caller, by_token
from builders.job_builders import a_body, a_job, an_attempt
from builders.portal_builders import NOW, Company
from jobs.models import Job
from jobs.submission.job_members import FIELDS
from portal.openapi import openapi_document
from tenants.models import User

pytestmark = pytest.mark.django_db


@pytest.fixture
def caller(bob: User) -> Caller:
    return by_token(bob)


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    found: dict[str, Any] = openapi_document()["components"]["schemas"]
    return found


#: How a field, and a choice, says that it may be null.
_NULLS = ({"type": "null"}, {"$ref": "#/components/schemas/NullEnum"})


def check(value: Any, schema: dict[str, Any], schemas: dict[str, Any], at: str = "") -> None:
    """Every member is described, every required member is there, null only where allowed."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[-1]]
    if "oneOf" in schema or "allOf" in schema:
        options = schema.get("oneOf") or schema["allOf"]
        if value is None:
            assert any(option in _NULLS for option in options), at
            return
        schema = next(option for option in options if option not in _NULLS)
        check(value, schema, schemas, at)
        return
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if value is None:
        assert "null" in kinds, at
    elif isinstance(value, dict) and "properties" in schema:
        assert set(value) <= set(schema["properties"]), at
        assert set(schema.get("required", ())) <= set(value), at
        for name, item in value.items():
            check(item, schema["properties"][name], schemas, f"{at}/{name}")
    elif isinstance(value, list):
        for item in value:
            check(item, schema["items"], schemas, f"{at}[]")
    elif isinstance(value, str):
        assert "string" in kinds, at
        assert value in schema.get("enum", [value]), at
    elif isinstance(value, bool):
        assert "boolean" in kinds, at
    elif isinstance(value, int):
        assert not {"integer", "number"}.isdisjoint(kinds), at


def test_answers_are_as_described(
    company: Company, bob: User, caller: Caller, schemas: dict[str, Any]
) -> None:
    job = a_job(company, bob, state="running")
    an_attempt(job, cluster=company.cluster, started_at=NOW)
    submitted = caller.post("jobs", a_body(script=..., sbatch="#SBATCH -J x\ntrue\n")).json()
    check(submitted, {"$ref": "#/components/schemas/SubmittedJob"}, schemas)
    for path, name in (
        ("jobs", "JobPage"),
        (f"jobs/{job.pk}", "JobDetail"),
        (f"jobs/{job.pk}/explanation", "Explanation"),
        (f"jobs/{submitted['id']}/explanation", "Explanation"),
        (f"jobs/{job.pk}/attempts", "JobAttempts"),
        (f"jobs/{job.pk}/history", "JobHistory"),
    ):
        body = caller.get(path).json()
        check(body, {"$ref": f"#/components/schemas/{name}"}, schemas, name)
    body = caller.post("jobs?dry_run=true", a_body()).json()
    check(body, {"$ref": "#/components/schemas/JobPlan"}, schemas)
    explanation = {"code": "never_fits", "sentence": "No.", "numbers": {}}
    waiting = a_job(company, bob, mgpu_per_node=8_000, node_count=2, explanation=explanation)
    found = caller.post(f"jobs/{waiting.pk}/alternatives", {}).json()
    check(found, {"$ref": "#/components/schemas/JobAlternatives"}, schemas)
    assert found["items"][0]["request"].keys() <= FIELDS
    assert set(caller.get(f"jobs/{job.pk}").json()) == set(schemas["JobDetail"]["properties"])
    assert set(submitted) == set(schemas["SubmittedJob"]["properties"])
    assert set(body) == set(schemas["JobPlan"]["properties"])


def test_the_body_of_a_submission_is_described_whole(schemas: dict[str, Any]) -> None:
    assert set(schemas["JobRequestRequest"]["properties"]) == FIELDS


VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63),
    10**29,
    0.1,
    -0.0,
    1e300,
    "",
    "x" * 5_000,
    "\x1b[31m",
    "\u202e",
    "１２",
    "a\n",
    "=1+1",
    "a|b",
    "$(id)",
    "`id`",
    "x\n#SBATCH --account=other",
    "../../etc",
    "-rf",
    "--uid=0",
    "' OR 1=1 --",
    "%00",
    [],
    [[]],
    {},
    {"a": {"b": 1}},
    ["x"],
    {"": ""},
    {"A": None},
]


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_no_value_of_any_member_breaks_the_server(caller: Caller, field: str) -> None:
    for value in VALUES:
        for query in ("", "?dry_run=true"):
            body = a_body(**{field: value})
            if field == "sbatch":
                body.pop("script")
            answer = caller.post(f"jobs{query}", body)
            assert answer.status_code < 500, (value, answer.content)
            if answer.status_code >= 400:
                assert answer.json()["detail"]


RAW_BODIES = [
    b"",
    b"null",
    b"[]",
    b'"x"',
    b"1",
    b"{",
    b"\xff\xfe{\x00}\x00",
    b'{"team": "\xff"}',
    b'{"team": "\\u0000"}',
    b'{"script": "\\u0000"}',
    b'{"name": "\\ud800"}',
    b'{"environment": {"\\u0000": "x"}}',
    b'{"gpus": NaN}',
    b'{"gpus": 1e400}',
    b'{"gpus": -Infinity}',
    b'{"gpus": ' + b"9" * 5_000 + b"}",
    b'{"gpus": 1, "gpus": 2}',
    b"[" * 100_000,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b"team=ai-company%2Fresearch%2Fnlp&gpus=1",
]


@pytest.mark.parametrize("body", RAW_BODIES, ids=lambda body: repr(body[:24]))
def test_odd_bodies_are_refused(caller: Caller, body: bytes) -> None:
    answer = caller.send("POST", "jobs", body)
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")
    assert not Job.objects.exists()


PARAMETERS = [
    "state",
    "team",
    "user",
    "pool",
    "q",
    "submitted_at__gte",
    "submitted_at__lt",
    "usage_class",
    "origin",
    "sort",
    "limit",
    "cursor",
    "format",
    "attempt",
    "rank",
    "stream",
    "offset",
    "dry_run",
]
TEXTS = [
    "",
    "%00",
    "%ED%A0%80",
    "%FF",
    "abc",
    "-1",
    "1e9",
    "9" * 30,
    "%D9%A3",
    "1%0A",
    "'",
    "%25",
    "0001-01-01T00:00:00%2B23:59",
    "9999-12-31T23:59:59-23:59",
    "..%2f..%2fetc",
    "x" * 3_000,
    "eyJhIjoxfQ",
    "WyIxIl0",
]


@pytest.mark.parametrize("name", PARAMETERS)
def test_no_query_breaks_the_server(company: Company, bob: User, caller: Caller, name: str) -> None:
    job = a_job(company, bob)
    for text in TEXTS:
        for path in ("jobs", f"jobs/{job.pk}", f"jobs/{job.pk}/logs", f"jobs/{job.pk}/history"):
            answer = caller.get(f"{path}?{name}={text}")
            assert answer.status_code < 500, (path, text, answer.content)
        for path in ("jobs", f"jobs/{job.pk}/hold", f"jobs/{job.pk}/alternatives"):
            answer = caller.post(f"{path}?{name}={text}", {})
            assert answer.status_code < 500, (path, text, answer.content)


@pytest.mark.parametrize(
    "job_id", ["1", "abc", "..%2f..", "%00", "00000000-0000-0000-0000-00000000000g", "x" * 500]
)
def test_ids_that_are_none(caller: Caller, job_id: str) -> None:
    for path in ("", "/explanation", "/attempts", "/history", "/logs"):
        assert caller.get(f"jobs/{job_id}{path}").status_code in {400, 404}
    for path in ("/cancel", "/hold", "/release", "/alternatives"):
        assert caller.post(f"jobs/{job_id}{path}", None).status_code in {400, 404}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE"])
def test_other_methods_are_refused(
    company: Company, bob: User, caller: Caller, method: str
) -> None:
    job = a_job(company, bob)
    for path in ("jobs", f"jobs/{job.pk}", f"jobs/{job.pk}/logs", f"jobs/{job.pk}/cancel"):
        assert caller.send(method, path, {}).status_code == 405


@pytest.mark.parametrize("key", ["", "a b", "ü".encode().decode("latin-1"), "x" * 256, "\x01"])
def test_odd_idempotency_keys(caller: Caller, key: str) -> None:
    assert caller.post("jobs", a_body(), Idempotency_Key=key).status_code == 400
    assert not Job.objects.exists()
