"""Two administrators at the same moment: one platform admin always stays, grants are single."""

from typing import Any

import pytest

from builders.api_callers import a_token, with_secret
from builders.cast import a_cast
from builders.parallel import at_once
from builders.portal_builders import a_grant, a_user
from tenants.models import RoleGrant, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)


def two_admins() -> tuple[Any, Any, RoleGrant, RoleGrant]:
    cast = a_cast()
    second = a_user(None, "second")
    of_second = a_grant(second, Role.PLATFORM_ADMIN, None)
    return (
        with_secret(a_token(cast.root)[1]),
        with_secret(a_token(second)[1]),
        cast.grant_of(cast.root),
        of_second,
    )


@pytest.mark.parametrize("attempt", range(5))
def test_two_admins_who_remove_each_other_leave_one(attempt: int) -> None:
    """Mutant that this kills: `active_platform_admins` that counts without locking."""
    root, second, of_root, of_second = two_admins()
    answers = at_once(
        [
            lambda: root.delete(f"role-grants/{of_second.pk}"),
            lambda: second.delete(f"role-grants/{of_root.pk}"),
        ]
    )
    assert sum(answer.status_code == 204 for answer in answers) == 1
    assert RoleGrant.objects.filter(role=Role.PLATFORM_ADMIN).count() == 1


@pytest.mark.parametrize("attempt", range(5))
def test_two_admins_who_deactivate_each_other_leave_one(attempt: int) -> None:
    root, second, of_root, of_second = two_admins()
    answers = at_once(
        [
            lambda: root.patch(f"users/{of_second.user_id}", {"is_active": False}),
            lambda: second.patch(f"users/{of_root.user_id}", {"is_active": False}),
        ]
    )
    assert sum(answer.status_code == 200 for answer in answers) == 1
    assert User.objects.filter(grants__role=Role.PLATFORM_ADMIN, is_active=True).count() == 1


def test_the_same_grant_twenty_times_at_once_is_made_once() -> None:
    cast = a_cast()
    callers = [with_secret(a_token(cast.alice)[1]) for _ in range(20)]
    body = {"user": "dave@ai-company", "role": "team_lead", "node": "ai-company/research/nlp"}
    answers = at_once([lambda c=caller: c.post("role-grants", body) for caller in callers])  # type: ignore[misc]
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert cast.dave.grants.count() == 1
