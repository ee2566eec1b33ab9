"""Requests that Schemathesis makes from our OpenAPI document, to every operation of the API.

A platform admin sends them, so that no refusal comes early. Three in four name things that exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from builders.api_callers import a_token
from builders.api_world import World, a_world
from portal.openapi import openapi_document

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1_800)]

#: The least number of requests in all, and the most to an operation. Some take few kinds of input.
REQUESTS_MIN = 10_000
REQUESTS_MAX = 60
#: Each answer is of a documented status and shape, and bad requests are refused.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.fixture
def open_connection() -> Iterator[None]:
    """Keep the test's connection open when a request ends, as Django's own test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def with_real_ids(case: Any, world: World) -> None:
    """Replace the ids in the path by those of the world."""
    resource = case.operation.path.removeprefix("/api/v1/").partition("/")[0]
    given = dict(case.path_parameters or {})
    for name in given:
        given[name] = world.ids.get(f"{resource}/{name}") or world.ids.get(name) or given[name]
    case.path_parameters = given


def test_no_generated_request_breaks_the_server(open_connection: None) -> None:
    """Planted: an undocumented status, a null where the document has none, an unhandled error."""
    schema = schemathesis.openapi.from_dict(openapi_document())
    schema.app = get_wsgi_application()
    operations = [result.ok() for result in schema.get_all_operations()]
    world = a_world()
    token = {"Authorization": f"Bearer {a_token(world.cast.root)[1]}"}
    statuses: Counter[int] = Counter()

    faults: list[str] = []

    for operation in operations:

        @settings(
            max_examples=REQUESTS_MAX,
            phases=[Phase.generate],
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(), names_real=st.integers(0, 3))
        def send(case: Any, names_real: int) -> None:
            if names_real:
                with_real_ids(case, world)
            # Each request finds the same world.
            with transaction.atomic():
                response = case.call(base_url="http://testserver", headers=token)
                transaction.set_rollback(True)
            statuses[response.status_code] += 1
            case.validate_response(response, checks=CHECKS)

        try:
            send()
        except FailureGroup as failures:
            faults += [f"{operation.label}: {failure}" for failure in failures.exceptions]

    assert faults == []
    assert statuses.total() >= REQUESTS_MIN
    assert max(statuses) < 500
    # The requests do not end at the first wall: many are understood.
    assert statuses[200] >= REQUESTS_MIN // 10
