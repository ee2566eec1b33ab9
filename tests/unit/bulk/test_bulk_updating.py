"""Many changed rows in one statement."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from builders.portal_builders import a_company
from bulk.updating import update_rows
from clusters.models import ClusterNode
from quotas.models import Quota

pytestmark = pytest.mark.django_db

AT = datetime(2026, 5, 1, 12, 0, 0, 1, tzinfo=UTC)


def test_each_row_gets_its_own_values_and_no_other_row_changes(
    django_assert_num_queries: object,
) -> None:
    """Planted: rows matched by nothing, so that all of them became the first."""
    company = a_company()
    first, second, third, _ = ClusterNode.objects.filter(cluster=company.cluster).order_by("name")
    rows = [
        {"id": first.pk, "seen_at": AT, "features": ["a", "b"], "state": 'it\'s \\ "down"'},
        {"id": second.pk, "seen_at": AT, "features": [], "state": ""},
        {"id": uuid4(), "seen_at": AT, "features": [], "state": ""},
    ]
    with django_assert_num_queries(1):  # type: ignore[operator]
        assert update_rows(ClusterNode, rows) == 2
    found = {node.name: node for node in ClusterNode.objects.all()}
    assert found[first.name].state == 'it\'s \\ "down"'
    assert (found[first.name].seen_at, found[first.name].features) == (AT, ["a", "b"])
    assert (found[second.name].state, found[second.name].features) == ("", [])
    assert (found[third.name].state, found[third.name].seen_at) == (third.state, third.seen_at)
    assert found[first.name].capacity_mgpu == first.capacity_mgpu


def test_nothing_is_a_value_too() -> None:
    company = a_company()
    quota = Quota.objects.get(node=company.nlp)
    for value in (5_000, None):
        assert update_rows(Quota, [{"id": quota.pk, "borrow_limit_mgpu": value}]) == 1
        quota.refresh_from_db()
        assert quota.borrow_limit_mgpu == value


def test_what_is_no_column_or_has_no_key_is_refused() -> None:
    assert update_rows(Quota, []) == 0
    with pytest.raises(ValueError, match="ClusterNode has no column wings"):
        update_rows(ClusterNode, [{"id": 1, "wings": 2}])
    with pytest.raises(ValueError, match="every row of ClusterNode needs its id"):
        update_rows(ClusterNode, [{"state": "up"}])
