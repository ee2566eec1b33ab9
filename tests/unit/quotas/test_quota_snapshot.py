"""What the arbiter gets to see of quotas, and what it writes back."""

from datetime import timedelta
from typing import Any

import pytest

from arbiter.api.plan import NodeUse as PlannedUse
from arbiter.api.policy import Policy
from arbiter.api.snapshot import PriorityClass, Quota, TreeNode
from builders.portal_builders import (
    NOW,
    a_company,
    a_department,
    a_pool,
    a_priority_class,
    a_quota,
    a_team,
    an_organization,
)
from quotas.models import NodeUse, OrganizationPolicy
from quotas.models import PriorityClass as PriorityClassRow
from quotas.queries import RANK_FIRST, quota_snapshot, record_use

pytestmark = pytest.mark.django_db


def a_use(node: Any, pool: Any, *, in_use_mgpu: int = 0) -> PlannedUse:
    return PlannedUse(
        node=str(getattr(node, "pk", node)),
        pool=str(getattr(pool, "pk", pool)),
        in_use_mgpu=in_use_mgpu,
        protected_mgpu=1,
        borrowed_mgpu=2,
        lent_mgpu=3,
        available_mgpu=-4,
        waiting_mgpu=5,
    )


def test_the_tree_comes_parents_first_with_inherited_ranks() -> None:
    company = a_company()
    first, second = RANK_FIRST, RANK_FIRST - 1

    assert quota_snapshot().nodes == (
        TreeNode(
            str(company.organization.pk),
            None,
            0,
            7 * 86_400,
            Policy().spare_order,
            Policy().min_run_s,
            Policy().preemptions_max,
            Policy().skips_blocked_within_team,
        ),
        TreeNode(str(company.production.pk), str(company.organization.pk), first),
        TreeNode(str(company.inference.pk), str(company.production.pk), first),
        TreeNode(str(company.research.pk), str(company.organization.pk), second),
        TreeNode(str(company.nlp.pk), str(company.research.pk), second),
        TreeNode(str(company.vision.pk), str(company.research.pk), second),
    )


def test_the_nearest_ranked_ancestor_decides() -> None:
    organization = an_organization("deep")
    outer = a_department(organization, "outer")
    inner = a_department(outer, "inner")
    team = a_team(inner, "team")
    OrganizationPolicy.objects.create(
        organization=organization, rank=["deep/outer/inner", "deep/outer"]
    )

    ranks = {node.id: node.rank for node in quota_snapshot().nodes}

    assert [ranks[str(node.pk)] for node in (organization, outer, inner, team)] == [
        0,
        RANK_FIRST - 1,
        RANK_FIRST,
        RANK_FIRST,
    ]


def test_a_rank_of_one_organization_says_nothing_of_another() -> None:
    a_company()
    other = a_department(an_organization("other"), "production")

    ranks = {node.id: node.rank for node in quota_snapshot().nodes}

    assert ranks[str(other.pk)] == 0


def test_quotas_are_those_of_the_pools_asked_for() -> None:
    organization = an_organization()
    h100, a100 = a_pool("h100"), a_pool("a100")
    a_quota(organization, h100, 8, lend_gpus=4, borrow_gpus=0)
    a_quota(organization, a100, 2)
    node = str(organization.pk)

    assert quota_snapshot([h100.pk]).quotas == (Quota(node, str(h100.pk), 8_000, 4_000, 0, 100),)
    assert quota_snapshot([]).quotas == ()
    assert quota_snapshot().quotas == (
        Quota(node, str(h100.pk), 8_000, 4_000, 0, 100),
        Quota(node, str(a100.pk), 2_000, None, None, 100),
    )


def test_a_class_has_at_most_the_grace_of_its_organization() -> None:
    company = a_company()
    PriorityClassRow.objects.all().delete()
    OrganizationPolicy.objects.update(grace_period_s=120)
    short = a_priority_class(company.organization, "low", order=1, grace_period_s=60)
    long = a_priority_class(
        company.organization, "high", order=100, grace_period_s=300, preempts_within_team=True
    )
    free = a_priority_class(an_organization("no-policy"), "normal", grace_period_s=300)

    assert quota_snapshot().priority_classes == (
        PriorityClass(str(short.pk), 1, False, 60),
        PriorityClass(str(long.pk), 100, True, 120),
        PriorityClass(str(free.pk), 10, False, 300),
    )


def test_a_snapshot_takes_four_queries_whatever_the_size(
    django_assert_num_queries: Any,
) -> None:
    a_company("one")
    a_company("two")

    with django_assert_num_queries(4):
        quota_snapshot()


def test_use_is_stored_once_per_node_and_pool_and_only_when_it_changed(
    django_assert_num_queries: Any,
) -> None:
    company = a_company()
    later = NOW + timedelta(seconds=2)
    nlp, vision = a_use(company.nlp, company.pool), a_use(company.vision, company.pool)

    with django_assert_num_queries(1):
        assert record_use([nlp, vision], as_of=NOW) == {company.organization.pk}
    assert record_use([nlp, vision], as_of=later) == set()
    assert record_use([a_use(company.nlp, company.pool, in_use_mgpu=8_000)], as_of=later) == {
        company.organization.pk
    }

    rows = {
        row.node_id: (
            row.in_use_mgpu,
            row.protected_mgpu,
            row.borrowed_mgpu,
            row.lent_mgpu,
            row.available_mgpu,
            row.waiting_mgpu,
            row.as_of,
        )
        for row in NodeUse.objects.all()
    }
    assert rows == {
        company.nlp.pk: (8_000, 1, 2, 3, -4, 5, later),
        company.vision.pk: (0, 1, 2, 3, -4, 5, NOW),
    }


def test_use_of_a_node_that_is_no_more_is_passed_over() -> None:
    company = a_company()
    unknown = "01900000-0000-7000-8000-000000000000"

    uses = [a_use(company.nlp, company.pool), a_use(unknown, company.pool)]

    assert record_use(uses, as_of=NOW) == {company.organization.pk}


def test_no_use_is_no_query(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert record_use([], as_of=NOW) == set()
