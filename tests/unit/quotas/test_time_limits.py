"""Default and longest time limits over REST, their rights, and the rule of the nearest (R-114)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.portal_builders import NOW, Company, a_company, a_priority_class, an_actor
from quotas.models import TimeLimit
from quotas.policies import remove_priority_class
from quotas.time_limits import Bound, default_of, longest_of
from tenants.roles import Role

HOUR, DAY = 3_600, 86_400


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.mark.parametrize(
    ("bounds", "default", "longest"),
    [
        ([], None, None),
        ([Bound("class low", HOUR, None), Bound("pool h100", DAY, None)], HOUR, None),
        ([Bound("class low", None, DAY), Bound("pool h100", HOUR, None)], HOUR, DAY),
        # A default above somebody else's longest is cut to it.
        ([Bound("class low", 2 * DAY, None), Bound("pool h100", None, DAY)], DAY, DAY),
        # A longest limit without any default is the default.
        ([Bound("class low", None, 2 * DAY), Bound("pool h100", None, DAY)], DAY, DAY),
    ],
)
def test_the_nearest_default_and_the_strictest_longest_count(
    bounds: list[Bound], default: int | None, longest: int | None
) -> None:
    """Against: the largest longest limit; a default that is not cut; the farthest default."""
    found = default_of(bounds)
    assert (None if found is None else found.limit_s) == default
    strictest = longest_of(bounds)
    assert (None if strictest is None else strictest.limit_s) == longest


def test_the_source_of_a_default_is_named() -> None:
    low, pool = Bound("class low", 2 * DAY, None), Bound("pool h100", None, DAY)
    assert default_of([low]) == (2 * DAY, "the default of class low")
    assert default_of([low, pool]) == (DAY, "the longest of pool h100")


def of_platform() -> Caller:
    return by_token(an_actor(None, Role.PLATFORM_ADMIN).user)


@pytest.mark.django_db
def test_limits_are_made_changed_and_removed(company: Company) -> None:
    admin = of_platform()
    made = admin.post("time-limits", {"pool": "h100", "default_s": HOUR, "longest_s": DAY})
    assert (made.status_code, made.headers["ETag"]) == (201, '"v1"')
    body = made.json()
    assert {name: value for name, value in body.items() if name != "id"} == {
        "pool": "h100",
        "node": None,
        "priority_class": None,
        "organization": None,
        "default_s": HOUR,
        "longest_s": DAY,
        "can_edit": True,
        "version": 1,
    }
    path = f"time-limits/{body['id']}"
    changed = admin.patch(path, {"default_s": None}, If_Match='"v1"')
    assert (changed.status_code, changed.json()["default_s"]) == (200, None)
    stale = admin.patch(path, {"longest_s": HOUR}, If_Match='"v1"')
    assert (stale.status_code, stale.json()["current"]["version"]) == (412, 2)
    assert admin.delete(path, If_Match='"v2"').status_code == 204
    assert not TimeLimit.objects.exists()
    assert list(
        AuditEvent.objects.filter(subject_kind="time_limit")
        .order_by("id")
        .values_list("action", "detail__owner", "detail__default_s")
    ) == [
        ("time_limit.created", "pool h100", HOUR),
        ("time_limit.changed", "pool h100", None),
        ("time_limit.removed", "pool h100", None),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"pool": "h100"}, 400),
        ({"default_s": HOUR}, 400),
        ({"pool": "h100", "node": "ai-company", "default_s": HOUR}, 400),
        ({"pool": "h100", "default_s": DAY, "longest_s": HOUR}, 400),
        ({"pool": "h100", "default_s": 59}, 400),
        ({"pool": "nowhere", "default_s": HOUR}, 400),
        ({"priority_class": "normal", "default_s": HOUR}, 400),
        ({"priority_class": "none", "organization": "ai-company", "default_s": HOUR}, 404),
        ({"node": "ai-company/none", "default_s": HOUR}, 404),
    ],
)
def test_limits_that_mean_nothing_are_refused(
    company: Company, body: dict[str, Any], status: int
) -> None:
    assert of_platform().post("time-limits", body).status_code == status
    assert not TimeLimit.objects.exists()


@pytest.mark.django_db
def test_an_owner_has_limits_once(company: Company) -> None:
    admin = of_platform()
    assert admin.post("time-limits", {"pool": "h100", "default_s": HOUR}).status_code == 201
    again = admin.post("time-limits", {"pool": "h100", "default_s": HOUR})
    assert (again.status_code, again.json()["detail"]) == (
        409,
        "Pool h100 has time limits already. Change those.",
    )


@pytest.mark.django_db
def test_the_limits_of_a_node_are_its_parents_to_set(company: Company) -> None:
    """A limit binds the managers of the node. Against: the right on the node itself."""
    lead = by_token(an_actor(company.nlp, Role.TEAM_LEAD).user)
    research = by_token(an_actor(company.nlp.parent, Role.DEPARTMENT_ADMIN).user)
    body = {"node": "ai-company/research/nlp", "longest_s": DAY}
    assert lead.post("time-limits", body).status_code == 403
    made = research.post("time-limits", body)
    assert made.status_code == 201
    path = f"time-limits/{made.json()['id']}"
    assert (lead.get(path).status_code, lead.get(path).json()["can_edit"]) == (200, False)
    assert lead.patch(path, {"longest_s": None}, If_Match='"v1"').status_code == 403
    own = {"node": "ai-company/research", "longest_s": DAY}
    assert research.post("time-limits", own).status_code == 403
    pool = {"pool": "h100", "longest_s": DAY}
    assert research.post("time-limits", pool).status_code == 403


@pytest.mark.django_db
def test_a_removed_class_takes_its_limits_along(company: Company) -> None:
    """Against: its limits left there; the class was said to have jobs."""
    root = an_actor(None, Role.PLATFORM_ADMIN)
    found = a_priority_class(company.organization, "nightly")
    TimeLimit.objects.create(priority_class=found, default_s=HOUR)
    remove_priority_class(found.pk, actor=root, if_version=1, now=NOW)
    assert not TimeLimit.objects.exists()


@pytest.mark.django_db
def test_the_database_refuses_what_means_nothing(company: Company) -> None:
    TimeLimit.objects.create(pool=company.pool, default_s=HOUR, longest_s=DAY)
    for change, name in (
        ({"node": company.nlp}, "time_limit_is_of_one_owner"),
        ({"pool": None}, "time_limit_is_of_one_owner"),
        ({"default_s": None, "longest_s": None}, "time_limit_limits_something"),
        ({"default_s": 59}, "time_limit_is_a_minute_to_a_year"),
        ({"longest_s": 31_536_001}, "time_limit_is_a_minute_to_a_year"),
        ({"default_s": DAY + 1}, "time_limit_default_is_not_above_the_longest"),
    ):
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            TimeLimit.objects.update(**change)
    with pytest.raises(IntegrityError, match="pool_id"), transaction.atomic():
        TimeLimit.objects.create(pool=company.pool, default_s=HOUR)
