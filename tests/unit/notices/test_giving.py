"""Notices are given once, to the nearest people, and go after a while."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from builders.cast import Cast, a_cast
from builders.hints import hints_told
from builders.notice_builders import a_new_notice, a_notice, told
from builders.portal_builders import NOW, a_grant, a_user
from live.publishing import person
from notices import retention
from notices.giving import give_notices
from notices.models import Notice
from notices.recipients import nearest_people, nearest_people_of, platform_administrators
from notices.retention import drop_old_notices
from tenants.models import User
from tenants.roles import Permission, Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def test_a_person_gets_each_key_once(cast: Cast) -> None:
    """Against: the second call gives it again."""
    notices = [a_new_notice(cast.bob), a_new_notice(cast.alice), a_new_notice(cast.bob, "other")]
    assert give_notices(notices) == 3
    assert give_notices(notices) == 0
    assert told(cast.bob) == [("job_failed", "bert failed.")] * 2


def test_only_the_pages_of_the_person_get_a_hint(cast: Cast) -> None:
    """A repeated notice gives no hint. Against: a hint to the whole organization."""
    with hints_told() as hints:
        give_notices([a_new_notice(cast.bob), a_new_notice(cast.bob, "other")])
        give_notices([a_new_notice(cast.bob)])
    assert hints == [{"topic": "notices", "ids": [], "to": person(cast.bob.pk)}]


def test_a_rolled_back_cause_gives_no_notice(cast: Cast) -> None:
    """Against: a notice that outlives the transaction of its cause."""
    with transaction.atomic():
        give_notices([a_new_notice(cast.bob)])
        transaction.set_rollback(True)
    assert told(cast.bob) == []


def test_a_long_sentence_is_cut(cast: Cast) -> None:
    give_notices([a_new_notice(cast.bob, sentence="x" * 501)])
    assert Notice.objects.get().sentence == "x" * 499 + "…"


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"event": "birthday"}, "notice_event_is_known"),
        ({"link": "//evil.example/jobs"}, "notice_link_is_local"),
        ({"link": "/\\evil.example"}, "notice_link_is_local"),
        ({"link": "https://evil.example"}, "notice_link_is_local"),
        ({"sentence": ""}, "notice_has_a_sentence"),
        ({"deadline": NOW - timedelta(seconds=1)}, "notice_deadline_is_later"),
    ],
)
def test_the_database_refuses_a_bad_notice(
    cast: Cast, changes: dict[str, Any], constraint: str
) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        a_notice(cast.bob, **changes)


def test_the_database_refuses_a_second_notice_of_a_key(cast: Cast) -> None:
    a_notice(cast.bob)
    with pytest.raises(IntegrityError, match="notice_is_given_once"):
        a_notice(cast.bob)


def names(cast: Cast, users: list[Any]) -> list[str]:
    found = User.objects.in_bulk(users)
    return sorted(found[pk].username for pk in users)


def test_the_nearest_people_with_the_right_are_told(cast: Cast) -> None:
    """The lead of nlp, not the administrators above. inference has no lead.

    Planted: everybody at or above the node.
    """
    people = nearest_people_of(Permission.MANAGE_QUOTA, [cast.nlp.path, cast.inference.path])
    assert {path: names(cast, found) for path, found in people.items()} == {
        cast.nlp.path: [cast.nlp_lead.username],
        cast.inference.path: [cast.production_admin.username],
    }


def test_another_right_has_other_people(cast: Cast) -> None:
    """Prices are managed on the organization."""
    found = nearest_people(Permission.MANAGE_PRICES, cast.nlp.path)
    assert names(cast, found) == [cast.alice.username, cast.finance.username]


def test_people_who_are_left_out_make_room_for_those_above(cast: Cast) -> None:
    """Planted: the person counts. Against: nobody is told."""
    found = nearest_people(Permission.MANAGE_QUOTA, cast.nlp.path, without=cast.nlp_lead.pk)
    assert names(cast, found) == [cast.research_admin.username]


def test_services_and_deactivated_people_are_not_told(cast: Cast) -> None:
    """Against: a notice that nobody reads."""
    User.objects.filter(pk=cast.nlp_lead.pk).update(is_active=False)
    crawler = a_user(cast.organization, "crawler")
    User.objects.filter(pk=crawler.pk).update(kind="service")
    a_grant(crawler, Role.TEAM_LEAD, cast.nlp)
    found = nearest_people(Permission.MANAGE_QUOTA, cast.nlp.path)
    assert names(cast, found) == [cast.research_admin.username]


def test_no_organization_tells_another_one(cast: Cast) -> None:
    """rival-lab's team has only its own administrator. Against: a prefix without its slash."""
    found = nearest_people(Permission.MANAGE_QUOTA, cast.rival_team.path)
    assert names(cast, found) == [cast.charlie.username]
    assert names(cast, platform_administrators()) == [cast.root.username]


def test_notices_go_after_ninety_days(cast: Cast) -> None:
    """Planted: the newer one is dropped."""
    a_notice(cast.bob, "old", at=NOW - timedelta(days=90, seconds=1))
    a_notice(cast.bob, "kept", at=NOW - timedelta(days=90))
    assert drop_old_notices(NOW) == 1
    assert list(Notice.objects.values_list("key", flat=True)) == ["kept"]


def test_a_person_keeps_the_newest_only(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another person's inbox stays. Planted: the oldest ones stay."""
    monkeypatch.setattr(retention, "KEPT_MAX", 2)
    for key in ("first", "second", "third"):
        a_notice(cast.bob, key)
    a_notice(cast.alice, "hers")
    assert drop_old_notices(NOW) == 1
    kept = Notice.objects.order_by("pk").values_list("key", flat=True)
    assert list(kept) == ["second", "third", "hers"]


def test_an_unused_user_with_notices_can_be_deleted(cast: Cast) -> None:
    """Notices are the person's own and go with the person. Against: they keep it."""
    a_notice(cast.dave)
    cast.dave.delete()
    assert not Notice.objects.exists()
