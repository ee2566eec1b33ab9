"""The checks of `scim2-tester` on the application behind a real socket."""

from __future__ import annotations

import pytest
from django.db import connection
from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server

from builders.app_server import serving
from builders.cast import a_cast
from builders.scim_builders import a_scim_token

pytestmark = pytest.mark.django_db(transaction=True)

#: Each check of the tool by its name. A new version of the tool may add some.
CHECKS = {
    *("service_provider_config_endpoint", "service_provider_config_endpoint_methods"),
    *("query_all_resource_types", "query_resource_type_by_id", "resource_types_schema_validation"),
    *("access_invalid_resource_type", "resource_types_endpoint_methods", "query_all_schemas"),
    *("access_schema_by_id", "access_invalid_schema", "schemas_endpoint_methods", "random_url"),
    *("object_creation", "object_query", "object_query_without_id"),
    *("object_query_with_attributes", "object_list_with_attributes", "object_replacement"),
    *("object_deletion", "check_add_attribute", "check_remove_attribute"),
    "check_replace_attribute",
}


def test_the_tool_finds_no_error(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: a deleted user that can still be read; a PATCH that ignores removals."""
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    cast = a_cast()
    secret = a_scim_token(cast.organization, cast.alice)[1]
    with (
        serving() as address,
        Client(
            base_url=f"{address}/scim/v2", headers={"Authorization": f"Bearer {secret}"}, timeout=60
        ) as http,
    ):
        results = check_server(SyncSCIMClient(http))
    wrong = [
        f"{each.title} of {each.resource_type}: {each.status.name} {each.reason}"
        for each in results
        if each.status not in {Status.SUCCESS, Status.COMPLIANT, Status.ACCEPTABLE}
    ]
    # Searches over all kinds of resources at once are optional, and answered 501.
    assert [line for line in wrong if "search_with_attributes" not in line] == []
    assert {str(each.title) for each in results} >= CHECKS
