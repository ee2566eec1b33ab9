"""One key, one effect, one answer: also when the same request comes 50 times at once.

The first test is the control: without a key the same 50 requests have 50 effects.
"""

from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import Caller, a_token
from builders.cast import Cast, a_cast
from builders.parallel import at_once
from tenants.models import AccessToken, Node, RoleGrant, User
from tenants.tokens import LIVE_TOKENS_MAX
from webapi.models import IdempotentAnswer

pytestmark = pytest.mark.django_db(transaction=True)

TIMES = 50


def fresh_caller(secret: str) -> Caller:
    return Caller({"Authorization": f"Bearer {secret}"})


def send_at_once(cast: Cast, path: str, body: Any, *, times: int = TIMES, **headers: str) -> Any:
    _, secret = a_token(cast.alice)
    callers = [fresh_caller(secret) for _ in range(times)]
    return at_once([lambda c=caller: c.post(path, body, **headers) for caller in callers])  # type: ignore[misc]


TOKEN = {"name": "x", "scopes": ["read"], "expires_in_days": 1}


def test_control_without_a_key_every_request_has_its_effect() -> None:
    cast = a_cast()
    answers = send_at_once(cast, "tokens", TOKEN, times=20)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 20
    assert AccessToken.objects.filter(name="x").count() == 20


@pytest.mark.parametrize(
    ("path", "body", "effects"),
    [
        (
            "departments",
            {"parent": "ai-company", "slug": "new", "name": "New"},
            lambda: Node.objects.filter(slug="new").count(),
        ),
        (
            "users",
            {"organization": "ai-company", "username": "erin", "name": "Erin", "kind": "person"},
            lambda: User.objects.filter(username="erin").count(),
        ),
        (
            "role-grants",
            {"user": "dave@ai-company", "role": "auditor", "node": "ai-company"},
            lambda: RoleGrant.objects.filter(user__username="dave").count(),
        ),
        ("tokens", TOKEN, lambda: AccessToken.objects.filter(name="x").count()),
    ],
)
def test_fifty_equal_requests_have_one_effect_and_one_answer(
    path: str, body: Any, effects: Any
) -> None:
    """Mutant that this kills: `answer_once` without the advisory lock (constraint errors, or
    several tokens)."""
    cast = a_cast()
    answers = send_at_once(cast, path, body, Idempotency_Key="the-key")
    assert [answer.status_code for answer in answers] == [201] * TIMES
    firsts = [answer for answer in answers if "Idempotency-Replayed" not in answer]
    assert len(firsts) == 1
    bodies = [{**answer.json(), "secret": None} for answer in answers]
    assert all(each == bodies[0] for each in bodies)
    if path == "tokens":
        assert sum(answer.json()["secret"] is not None for answer in answers) == 1
    assert effects() == 1
    assert AuditEvent.objects.count() == 1
    assert IdempotentAnswer.objects.count() == 1


def test_another_body_under_the_same_key_is_refused_at_any_time() -> None:
    cast = a_cast()
    _, secret = a_token(cast.alice)
    bodies = [{"parent": "ai-company", "slug": f"d{n}", "name": "D"} for n in range(10)]
    answers = at_once(
        [
            lambda b=body: fresh_caller(secret).post("departments", b, Idempotency_Key="k")  # type: ignore[misc]
            for body in bodies
        ]
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [422] * 9
    assert Node.objects.filter(slug__regex="^d[0-9]$").count() == 1


def test_a_refusal_is_not_kept_and_may_be_tried_again() -> None:
    cast = a_cast()
    body = {"user": "dave@ai-company", "role": "researcher", "node": "ai-company/research/nlp"}
    User.objects.filter(pk=cast.dave.pk).update(is_active=False)
    answers = send_at_once(cast, "role-grants", body, times=5, Idempotency_Key="k")
    assert [answer.status_code for answer in answers] == [409] * 5
    assert IdempotentAnswer.objects.count() == 0
    User.objects.filter(pk=cast.dave.pk).update(is_active=True)
    answers = send_at_once(cast, "role-grants", body, times=5, Idempotency_Key="k")
    assert [answer.status_code for answer in answers] == [201] * 5
    assert cast.dave.grants.count() == 1


def test_the_key_of_one_is_not_the_key_of_another() -> None:
    cast = a_cast()
    callers = [
        fresh_caller(a_token(user)[1]) for user in (cast.alice, cast.bob, cast.charlie, cast.root)
    ]
    answers = at_once(
        [lambda c=caller: c.post("tokens", TOKEN, Idempotency_Key="k") for caller in callers]  # type: ignore[misc]
    )
    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({answer.json()["id"] for answer in answers}) == 4


def test_the_limit_of_live_tokens_holds_in_parallel() -> None:
    cast = a_cast()
    for _ in range(LIVE_TOKENS_MAX - 6):
        a_token(cast.alice)
    answers = send_at_once(cast, "tokens", TOKEN, times=20)
    assert sorted(answer.status_code for answer in answers) == [201] * 5 + [409] * 15
    assert AccessToken.objects.filter(user=cast.alice).count() == LIVE_TOKENS_MAX
