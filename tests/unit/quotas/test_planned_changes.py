"""Several edits of quotas as one: drafted, applied, scheduled, taken back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_pool,
    a_quota,
    an_actor,
)
from primitives.clock import SystemClock
from primitives.errors import Conflict
from quotas.administration import QuotaEdit, change_quota
from quotas.models import PlannedChange, PlannedEdit, Quota, QuotaChange
from quotas.planned_changes import apply_planned, cancel_planned, carry_out_due, draft_change
from quotas.planned_reading import etag_of_planned
from quotas.tasks import carry_out_planned_changes
from tenants.access import Actor
from tenants.models import Node, RoleGrant
from tenants.roles import Role

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def quota_of(node: Node) -> Quota:
    return Quota.objects.get(node=node, pool__name="h100")


def gpus(*nodes: Node) -> list[int]:
    return [quota_of(node).guaranteed_mgpu // 1000 for node in nodes]


def moved(company: Company, count: int = 4) -> list[tuple[Any, QuotaEdit]]:
    """`count` GPUs from vision to nlp, which have 8 each of the 16 of research: neither could be
    done alone in this order."""
    return [
        (quota_of(company.nlp).pk, QuotaEdit(guaranteed_mgpu=(8 + count) * 1000)),
        (quota_of(company.vision).pk, QuotaEdit(guaranteed_mgpu=(8 - count) * 1000)),
    ]


def drafted(actor: Actor, company: Company, **changes: Any) -> PlannedChange:
    given: dict[str, Any] = {"reason": "conference", "apply_at": None, "revert_after_s": None}
    given |= changes
    edits = given.pop("edits", None) or moved(company)
    return draft_change(edits, actor=actor, now=NOW, **given)


def applied(actor: Actor, planned: PlannedChange, now: datetime = NOW) -> PlannedChange:
    return apply_planned(planned.pk, if_match=etag_of_planned(planned), actor=actor, now=now)


def admin_of(node: Node | None, role: Role = Role.DEPARTMENT_ADMIN) -> Actor:
    return an_actor(node, role)


def status_of(planned: PlannedChange) -> tuple[str, str]:
    planned.refresh_from_db()
    return planned.status, planned.note


def acts() -> list[tuple[str, str]]:
    found = AuditEvent.objects.filter(subject_kind="quota_change").order_by("pk")
    return [(event.action.removeprefix("quota_change."), event.actor) for event in found]


# -- drafting and applying ----------------------------------------------------------------------


def test_all_edits_are_made_as_one_with_history() -> None:
    """Planned edits one by one would be refused: nlp does not fit before vision gives.

    Planted: rules asked after each edit (dies on EnvelopeBroken)."""
    company = a_company()
    admin = admin_of(company.research)
    planned = drafted(admin, company)
    assert (gpus(company.nlp, company.vision), planned.node) == ([8, 8], company.research)

    applied(admin, planned)

    assert gpus(company.nlp, company.vision) == [12, 4]
    assert status_of(planned) == ("applied", "")
    assert (planned.decided_by, planned.applied_at, planned.revert_at) == (admin.user, NOW, None)
    history = QuotaChange.objects.order_by("pk")
    assert [(one.quota.node, one.reason) for one in history] == [
        (company.nlp, "conference"),
        (company.vision, "conference"),
    ]
    assert acts() == [("drafted", admin.user.login), ("applied", admin.user.login)]


def test_percentages_beside_and_below_follow_once() -> None:
    """Research shrinks by half: nlp, 50 %, follows; vision's own edit makes room."""
    company = a_company()
    Quota.objects.filter(node=company.nlp).update(guaranteed_bp=5_000)
    admin = admin_of(company.organization, Role.ORGANIZATION_ADMIN)
    edits = [
        (quota_of(company.research).pk, QuotaEdit(guaranteed_mgpu=8_000)),
        (quota_of(company.vision).pk, QuotaEdit(guaranteed_mgpu=4_000)),
    ]

    applied(admin, drafted(admin, company, edits=edits))

    assert gpus(company.research, company.nlp, company.vision) == [8, 4, 4]
    assert [one.reason for one in quota_of(company.nlp).changes.all()] == [
        "Follows ai-company/research: conference"
    ]
    assert quota_of(company.nlp).version == 2


def test_what_the_rules_refuse_changes_nothing() -> None:
    company = a_company()
    admin = by_token(admin_of(company.research).user)
    body = {
        "edits": [{"quota": str(quota_of(company.nlp).pk), "guaranteed_mgpu": 12_000}],
        "reason": "because",
    }
    drafted = admin.post("quota-changes", body)
    answer = admin.post(
        f"quota-changes/{drafted.json()['id']}/apply", None, if_match=drafted.headers["ETag"]
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "quota_envelope")
    assert (gpus(company.nlp), QuotaChange.objects.count()) == ([8], 0)
    assert PlannedChange.objects.get().status == "draft"


def test_a_lead_drafts_and_the_admin_above_applies() -> None:
    company = a_company()
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    body = {
        "edits": [{"quota": str(quota_of(company.nlp).pk), "guaranteed_percent": "25.00"}],
        "reason": "we need less",
    }
    asks, decides = by_token(lead.user), by_token(admin_of(company.research).user)

    drafted = asks.post("quota-changes", body)
    etag, path = drafted.headers["ETag"], f"quota-changes/{drafted.json()['id']}"
    may = [caller.get(path).json()["can_apply"] for caller in (asks, decides)]
    assert (drafted.json()["can_apply"], may) == (False, [False, True])
    refused = asks.post(f"{path}/apply", None, if_match=etag)
    accepted = decides.post(f"{path}/apply", None, if_match=etag)

    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (accepted.status_code, accepted.json()["status"]) == (200, "applied")
    assert accepted.json()["can_apply"] is False
    assert gpus(company.nlp) == [4]
    (edit,) = accepted.json()["edits"]
    assert edit["set"] == {"guaranteed_percent": "25.00"}
    assert (edit["before"]["guaranteed_mgpu"], edit["current"]["guaranteed_mgpu"]) == (8_000, 4_000)
    assert edit["is_stale"] is False


def test_a_lead_may_apply_what_they_may_set_themselves() -> None:
    """A borrow limit that is set may be lowered by the lead, and raised from above only.

    Planted: the differences compared after the edit was made on the same quota (all would do)."""
    company = a_company()
    Quota.objects.filter(node=company.nlp).update(borrow_limit_mgpu=8_000)
    lead = by_token(an_actor(company.nlp, Role.TEAM_LEAD).user)

    def can_apply(limit_mgpu: int | None) -> bool:
        edit = {"quota": str(quota_of(company.nlp).pk), "borrow_limit_mgpu": limit_mgpu}
        drafted = lead.post("quota-changes", {"edits": [edit], "reason": "because"}).json()
        return bool(drafted["can_apply"])

    assert [can_apply(4_000), can_apply(8_000), can_apply(9_000), can_apply(None)] == [
        True,
        True,
        False,
        False,
    ]


def test_nobody_drafts_for_a_node_of_which_they_may_change_nothing() -> None:
    company = a_company()
    lead = by_token(an_actor(company.nlp, Role.TEAM_LEAD).user)
    body = {
        "edits": [{"quota": str(quota_of(company.vision).pk), "weight": 5}],
        "reason": "because",
    }
    answer = lead.post("quota-changes", body)
    assert (answer.status_code, PlannedChange.objects.count()) == (403, 0)
    assert "manage_quota on ai-company/research/vision" in answer.json()["detail"]


def test_foreign_and_absent_quotas_and_changes_look_the_same() -> None:
    company, rival = a_company(), a_company("rival-lab")
    planned = drafted(admin_of(company.research), company)
    stranger = by_token(admin_of(rival.organization, Role.ORGANIZATION_ADMIN).user)
    edit = {"quota": str(quota_of(company.nlp).pk), "weight": 5}
    absent = {"quota": str(uuid4()), "weight": 5}

    answers = [
        stranger.post("quota-changes", {"edits": [one], "reason": "x"}) for one in (edit, absent)
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json()["detail"] == answers[1].json()["detail"]
    path = f"quota-changes/{planned.pk}"
    found = [
        stranger.get(path),
        stranger.post(f"{path}/apply", None, if_match='"x"'),
        stranger.post(f"{path}/cancel", None),
        stranger.post(f"{path}/preview", {}),
    ]
    assert [answer.status_code for answer in found] == [404] * 4
    assert stranger.get("quota-changes").json()["items"] == []
    assert status_of(planned) == ("draft", "")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"edits": []}, "/edits"),
        ({"edits": [{}]}, "/edits/0"),
        ({"edits": [{"weight": 1}, {"weight": 2}]}, "/edits/1"),
        ({"edits": [{"weight": 1}], "apply_at": "2001-01-01T00:00:00Z"}, "/apply_at"),
        ({"edits": [{"weight": 1}], "apply_at": "2001-01-01T00:00:00"}, "/apply_at"),
        ({"edits": [{"weight": 1}], "revert_after_s": 59}, "/revert_after_s"),
        ({"edits": [{"weight": 1, "gpus": 3}]}, "/edits/0/gpus"),
        (
            {"edits": [{"guaranteed_mgpu": 0, "guaranteed_percent": "1"}]},
            "/guaranteed_percent",
        ),
    ],
)
def test_what_means_nothing_is_refused(body: dict[str, Any], pointer: str) -> None:
    company = a_company()
    admin = by_token(admin_of(company.research).user)
    quota = str(quota_of(company.nlp).pk)
    edits = [{"quota": quota, **edit} for edit in body["edits"]]
    answer = admin.post("quota-changes", {**body, "edits": edits, "reason": "because"})
    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_edits_of_two_organizations_are_two_changes() -> None:
    company, rival = a_company(), a_company("rival-lab")
    root = admin_of(None, Role.PLATFORM_ADMIN)
    edits = [(quota_of(one.nlp).pk, QuotaEdit(weight=5)) for one in (company, rival)]
    with pytest.raises(Exception, match="cannot span several organizations"):
        drafted(root, company, edits=edits)


# -- 412 and 428 --------------------------------------------------------------------------------


def test_a_tree_that_changed_since_the_draft_is_412_and_shows_it_three_ways() -> None:
    """Planted: the ETag over the change alone (the second apply would be 200)."""
    company = a_company()
    actor = admin_of(company.research)
    admin = by_token(actor.user)
    edits = [
        {"quota": str(quota_id), "guaranteed_mgpu": edit["guaranteed_mgpu"]}
        for quota_id, edit in moved(company)
    ]
    drafted = admin.post("quota-changes", {"edits": edits, "reason": "because"})
    path = f"quota-changes/{drafted.json()['id']}"
    change_quota(
        quota_of(company.nlp).pk,
        QuotaEdit(weight=7),
        actor=actor,
        if_version=1,
        reason="meanwhile",
        now=NOW,
    )

    missing = admin.post(f"{path}/apply", None)
    stale = admin.post(f"{path}/apply", None, if_match=drafted.headers["ETag"])

    assert (missing.status_code, stale.status_code) == (428, 412)
    nlp, vision = stale.json()["current"]["edits"]
    assert (nlp["before"]["weight"], nlp["current"]["weight"]) == (100, 7)
    assert nlp["set"] == {"guaranteed_mgpu": 12_000}
    assert (nlp["is_stale"], vision["is_stale"]) == (True, False)
    again = admin.post(f"{path}/apply", None, if_match=admin.get(path).headers["ETag"])
    assert (again.status_code, gpus(company.nlp, company.vision)) == (200, [12, 4])


def test_what_is_applied_or_expired_is_not_applied_again() -> None:
    company = a_company()
    admin = admin_of(company.research)
    done, old, dropped = (drafted(admin, company) for _ in range(3))
    seen = etag_of_planned(done)
    applied(admin, done)
    done.refresh_from_db()
    told = r"already applied at 2026-.* UTC\. To change .*, draft a new"
    # Whoever saw it before it was applied is told so, too, and not that something is another.
    for state in (seen, etag_of_planned(done)):
        with pytest.raises(Conflict, match=told):
            apply_planned(done.pk, if_match=state, actor=admin, now=NOW)
    cancel_planned(dropped.pk, actor=admin, now=NOW)
    dropped.refresh_from_db()
    with pytest.raises(Conflict, match=r"was cancelled, so it cannot be applied\. Draft"):
        applied(admin, dropped)
    with pytest.raises(Exception, match=r"has expired\. Draft the change again"):
        applied(admin, old, now=NOW + timedelta(days=7))
    assert gpus(company.nlp) == [12]


# -- at a time ----------------------------------------------------------------------------------


def test_a_scheduled_change_is_applied_at_its_time_and_once() -> None:
    company = a_company()
    admin = admin_of(company.research)
    planned = applied(admin, drafted(admin, company, apply_at=NOW + HOUR))
    assert status_of(planned) == ("scheduled", "")
    assert (carry_out_due(now=NOW + HOUR - timedelta(seconds=1)), gpus(company.nlp)) == (0, [8])

    assert carry_out_due(now=NOW + HOUR) == 1
    assert carry_out_due(now=NOW + 2 * HOUR) == 0

    assert (status_of(planned), gpus(company.nlp, company.vision)) == (("applied", ""), [12, 4])
    assert planned.applied_at == NOW + HOUR
    assert [act for act, _ in acts()] == ["drafted", "scheduled", "applied"]


def test_a_scheduled_change_fails_where_somebody_changed_its_quotas_since() -> None:
    company = a_company()
    admin = admin_of(company.research)
    planned = applied(admin, drafted(admin, company, apply_at=NOW + HOUR))
    edit = QuotaEdit(borrow_limit_mgpu=0)
    change_quota(quota_of(company.vision).pk, edit, actor=admin, if_version=1, reason="x", now=NOW)

    assert carry_out_due(now=NOW + HOUR) == 1

    assert status_of(planned) == (
        "failed",
        "ai-company/research/vision in h100 has changed since this change was decided.",
    )
    assert gpus(company.nlp, company.vision) == [8, 8]


def test_a_scheduled_change_needs_the_rights_of_that_moment() -> None:
    """Planted: applied as the system, which needs none."""
    company = a_company()
    admin = admin_of(company.research)
    planned = applied(admin, drafted(admin, company, apply_at=NOW + HOUR))
    RoleGrant.objects.filter(user=admin.user).delete()

    carry_out_due(now=NOW + HOUR)

    status, note = status_of(planned)
    assert (status, gpus(company.nlp)) == ("failed", [8])
    assert note.startswith("You need the right manage_quota on ai-company/research")


def test_who_lacks_the_rights_cannot_schedule() -> None:
    """A lead may change limits of the team, not its guarantee; rights are asked at once."""
    company = a_company()
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    edits = [(quota_of(company.nlp).pk, QuotaEdit(guaranteed_mgpu=1_000))]
    planned = drafted(lead, company, edits=edits, apply_at=NOW + HOUR)
    with pytest.raises(Exception, match="change a guarantee or weight"):
        applied(lead, planned)
    assert status_of(planned) == ("draft", "")


def test_a_draft_that_nobody_decides_on_expires() -> None:
    company = a_company()
    admin = admin_of(company.research)
    week, hour = drafted(admin, company), drafted(admin, company, apply_at=NOW + HOUR)

    assert carry_out_due(now=NOW + HOUR) == 1
    assert (status_of(week)[0], status_of(hour)[0]) == ("draft", "expired")
    assert carry_out_due(now=NOW + timedelta(days=7)) == 1
    assert (status_of(week)[0], week.ended_at) == ("expired", NOW + timedelta(days=7))


def test_a_round_is_bounded_and_the_rest_comes_next() -> None:
    company = a_company()
    admin = admin_of(company.research)
    for _ in range(3):
        drafted(admin, company)
    late = NOW + timedelta(days=8)
    assert [carry_out_due(now=late, limit=2) for _ in range(3)] == [2, 1, 0]


def test_the_task_carries_out_what_is_due_now() -> None:
    company = a_company()
    admin = admin_of(company.research)
    planned = drafted(admin, company)
    PlannedChange.objects.update(expires_at=SystemClock().now() - HOUR)
    carry_out_planned_changes()
    assert status_of(planned)[0] == "expired"


# -- taken back ---------------------------------------------------------------------------------


def test_a_change_is_taken_back_after_its_time_also_without_rights() -> None:
    """vision was half of research, nlp had no percentage: both are as they were."""
    company = a_company()
    Quota.objects.filter(node=company.vision).update(guaranteed_bp=5_000)
    admin = admin_of(company.research)
    planned = applied(admin, drafted(admin, company, revert_after_s=3_600))
    RoleGrant.objects.filter(user=admin.user).delete()
    assert (gpus(company.nlp, company.vision), planned.revert_at) == ([12, 4], NOW + HOUR)
    assert quota_of(company.vision).guaranteed_bp is None

    assert carry_out_due(now=NOW + HOUR) == 1
    assert carry_out_due(now=NOW + 2 * HOUR) == 0

    assert (status_of(planned), gpus(company.nlp, company.vision)) == (("reverted", ""), [8, 8])
    assert quota_of(company.vision).guaranteed_bp == 5_000
    last = quota_of(company.nlp).changes.latest("pk")
    assert (last.actor, last.reason) == (None, "Reverted as planned: conference")
    assert acts()[-1] == ("reverted", "system")


def alone(node: Node, count: int) -> list[tuple[Any, QuotaEdit]]:
    return [(quota_of(node).pk, QuotaEdit(guaranteed_mgpu=count * 1_000))]


def test_what_is_due_first_comes_first_whether_it_is_applied_or_taken_back() -> None:
    """Vision lends 4 of research's 16 GPUs for an hour; a minute later nlp is to have them.

    Planted: all that is applied before all that is taken back: vision lost them for good."""
    company = a_company()
    admin = admin_of(company.research)
    lent = applied(
        admin, drafted(admin, company, edits=alone(company.vision, 4), revert_after_s=3_600)
    )
    at = NOW + HOUR + timedelta(minutes=1)
    late = applied(admin, drafted(admin, company, edits=alone(company.nlp, 12), apply_at=at))

    assert carry_out_due(now=at + HOUR) == 2

    assert (status_of(lent)[0], status_of(late)[0]) == ("reverted", "failed")
    assert gpus(company.nlp, company.vision) == [8, 8]


def test_of_one_moment_what_is_taken_back_makes_room_for_what_is_applied() -> None:
    """Nlp has 4 GPUs by day, vision 12 until the morning. Of many that are due no later one goes
    first because the earlier ones are too many.

    Planted: applied first; the first of each kind taken where one alone may be done."""
    company = a_company()
    admin = admin_of(company.research)
    applied(admin, drafted(admin, company, edits=alone(company.nlp, 4)))
    night = applied(
        admin, drafted(admin, company, edits=alone(company.vision, 12), revert_after_s=3_600)
    )
    day = applied(admin, drafted(admin, company, edits=alone(company.nlp, 8), apply_at=NOW + HOUR))

    assert carry_out_due(now=NOW + HOUR, limit=1) == 1
    assert (status_of(night)[0], status_of(day)[0]) == ("reverted", "scheduled")
    assert carry_out_due(now=NOW + HOUR, limit=1) == 1
    assert (status_of(day)[0], gpus(company.nlp, company.vision)) == ("applied", [8, 8])


@pytest.mark.parametrize("later_s", [0, 60])
def test_of_two_changes_of_a_quota_until_one_moment_the_last_is_taken_back_first(
    later_s: int,
) -> None:
    """Vision lends nlp 4 GPUs until the hour, and has 2 of them back until then.

    Against: the first change is taken back first, finds other quotas and is kept for good."""
    company = a_company()
    admin = admin_of(company.research)
    first = applied(admin, drafted(admin, company, revert_after_s=3_600))
    both = [*alone(company.nlp, 10), *alone(company.vision, 6)]
    draft = drafted(admin, company, edits=both, revert_after_s=3_600 - later_s)
    second = applied(admin, draft, now=NOW + timedelta(seconds=later_s))
    assert (gpus(company.nlp, company.vision), first.revert_at) == ([10, 6], second.revert_at)

    assert carry_out_due(now=NOW + HOUR) == 2

    assert (status_of(first)[0], status_of(second)[0]) == ("reverted", "reverted")
    assert gpus(company.nlp, company.vision) == [8, 8]


def test_nothing_is_taken_back_where_something_else_changed_these_quotas() -> None:
    """Planted: only the first edit's version compared."""
    company = a_company()
    admin = admin_of(company.research)
    planned = applied(admin, drafted(admin, company, revert_after_s=3_600))
    quota = quota_of(company.vision)
    change_quota(
        quota.pk,
        QuotaEdit(guaranteed_mgpu=3_000),
        actor=admin,
        if_version=quota.version,
        reason="x",
        now=NOW,
    )

    carry_out_due(now=NOW + HOUR)

    assert status_of(planned) == (
        "kept",
        "ai-company/research/vision in h100 has changed since, so nothing was reverted.",
    )
    assert gpus(company.nlp, company.vision) == [12, 3]


def shrunk(company: Company, count: int, admin: Actor) -> None:
    """research is given `count` GPUs of the 16 that it had."""
    quota = quota_of(company.research)
    edit = QuotaEdit(guaranteed_mgpu=count * 1000)
    version = quota.version
    change_quota(quota.pk, edit, actor=admin, if_version=version, reason="less", now=NOW)


def where_vision_has_a_quarter() -> Company:
    """It is given 25 % of research, which are 4 GPUs."""
    company = a_company()
    Quota.objects.filter(node=company.vision).update(guaranteed_bp=2_500, guaranteed_mgpu=4_000)
    return company


def vision_lends_two(company: Company, admin: Actor, **times: Any) -> PlannedChange:
    """vision lends 2 GPUs: decided."""
    edits = [(quota_of(company.vision).pk, QuotaEdit(lend_limit_mgpu=2_000))]
    return applied(admin, drafted(admin, company, edits=edits, **times))


def is_stale(planned: PlannedChange, actor: Actor) -> list[bool]:
    shown = by_token(actor.user).get(f"quota-changes/{planned.pk}").json()
    return [edit["is_stale"] for edit in shown["edits"]]


def test_a_percentage_that_comes_to_fewer_gpus_does_not_keep_what_is_to_be_taken_back() -> None:
    """vision's 25 % follow research from 4 GPUs to 3; its lend limit is taken back all the same.

    Planted: versions compared, which a follower's change raises too (kept); the GPUs compared
    beside the percentage (kept)."""
    company = where_vision_has_a_quarter()
    admin = admin_of(company.organization, Role.ORGANIZATION_ADMIN)
    planned = vision_lends_two(company, admin, revert_after_s=3_600)
    shrunk(company, 12, admin)
    vision = quota_of(company.vision)
    assert (vision.guaranteed_mgpu, vision.lend_limit_mgpu) == (3_000, 2_000)
    assert is_stale(planned, admin) == [False]

    carry_out_due(now=NOW + HOUR)

    vision = quota_of(company.vision)
    assert status_of(planned) == ("reverted", "")
    assert (vision.guaranteed_mgpu, vision.guaranteed_bp, vision.lend_limit_mgpu) == (
        3_000,
        2_500,
        None,
    )


def test_two_changes_of_parent_and_child_are_both_taken_back_in_one_round() -> None:
    """Planted: versions compared (the child's, due second, was kept)."""
    company = where_vision_has_a_quarter()
    admin = admin_of(company.organization, Role.ORGANIZATION_ADMIN)
    parents = drafted(
        admin,
        company,
        edits=[(quota_of(company.research).pk, QuotaEdit(guaranteed_mgpu=12_000))],
        revert_after_s=3_600,
    )
    applied(admin, parents)
    childs = vision_lends_two(company, admin, revert_after_s=3_600)

    assert carry_out_due(now=NOW + HOUR) == 2

    assert (status_of(parents)[0], status_of(childs)[0]) == ("reverted", "reverted")
    assert (gpus(company.research, company.vision), quota_of(company.vision).lend_limit_mgpu) == (
        [16, 4],
        None,
    )


def test_a_scheduled_change_of_a_percentage_outlives_a_change_of_its_parent() -> None:
    """Planted: versions compared (it failed)."""
    company = where_vision_has_a_quarter()
    admin = admin_of(company.organization, Role.ORGANIZATION_ADMIN)
    planned = vision_lends_two(company, admin, apply_at=NOW + HOUR)
    shrunk(company, 12, admin)

    carry_out_due(now=NOW + HOUR)

    assert (status_of(planned), quota_of(company.vision).lend_limit_mgpu) == (
        ("applied", ""),
        2_000,
    )


def given_since(edit: QuotaEdit) -> tuple[Company, Actor, PlannedChange]:
    """vision lends 2 GPUs for an hour, and is given `edit` meanwhile."""
    company = where_vision_has_a_quarter()
    admin = admin_of(company.research)
    planned = vision_lends_two(company, admin, revert_after_s=3_600)
    quota = quota_of(company.vision)
    change_quota(quota.pk, edit, actor=admin, if_version=2, reason="x", now=NOW)
    return company, admin, planned


def test_what_somebody_gave_the_setting_since_is_never_taken_back() -> None:
    """Another limit. Planted: the settings of an applied change not compared (reverted)."""
    company, admin, planned = given_since(QuotaEdit(lend_limit_mgpu=1_000))
    assert is_stale(planned, admin) == [True]

    carry_out_due(now=NOW + HOUR)

    assert (status_of(planned)[0], quota_of(company.vision).lend_limit_mgpu) == ("kept", 1_000)
    assert is_stale(planned, admin) == [True]


@pytest.mark.parametrize(
    ("edit", "guaranteed_mgpu", "guaranteed_bp"),
    [
        (QuotaEdit(guaranteed_mgpu=4_000), 4_000, None),
        (QuotaEdit(guaranteed_bp=2_000), 3_000, 2_000),
    ],
)
def test_what_the_change_did_not_set_stays(
    edit: QuotaEdit, guaranteed_mgpu: int, guaranteed_bp: int | None
) -> None:
    """As many GPUs that are no percentage any more, and another percentage.

    Planted: all settings compared (kept); all settings taken back (25 %).
    """
    company, admin, planned = given_since(edit)
    assert is_stale(planned, admin) == [False]

    carry_out_due(now=NOW + HOUR)

    vision = quota_of(company.vision)
    assert (status_of(planned)[0], vision.lend_limit_mgpu) == ("reverted", None)
    assert (vision.guaranteed_mgpu, vision.guaranteed_bp) == (guaranteed_mgpu, guaranteed_bp)


def test_what_was_taken_back_is_changed_by_others_alone() -> None:
    """Not by its own taking back; by who lowers the lend limit afterwards.

    Planted: compared with what the change had set (its own taking back was told as a change)."""
    company = where_vision_has_a_quarter()
    admin = admin_of(company.organization, Role.ORGANIZATION_ADMIN)
    planned = vision_lends_two(company, admin, revert_after_s=3_600)
    carry_out_due(now=NOW + HOUR)
    assert (status_of(planned)[0], is_stale(planned, admin)) == ("reverted", [False])

    edit = QuotaEdit(lend_limit_mgpu=1_000)
    change_quota(quota_of(company.vision).pk, edit, actor=admin, if_version=3, reason="x", now=NOW)

    assert is_stale(planned, admin) == [True]


def test_a_guarantee_that_the_change_itself_set_is_known() -> None:
    """From GPUs to percent and back: the way it was written before is not looked for.

    Planted: both ways of writing compared (kept)."""
    company = a_company()
    admin = admin_of(company.organization, Role.ORGANIZATION_ADMIN)
    edits = [(quota_of(company.vision).pk, QuotaEdit(guaranteed_bp=2_500))]
    planned = applied(admin, drafted(admin, company, edits=edits, revert_after_s=3_600))
    assert is_stale(planned, admin) == [False]

    carry_out_due(now=NOW + HOUR)

    vision = quota_of(company.vision)
    assert status_of(planned) == ("reverted", "")
    assert (vision.guaranteed_mgpu, vision.guaranteed_bp) == (8_000, None)


def test_what_does_not_fit_any_more_is_not_taken_back() -> None:
    """vision gave 4 GPUs for an hour; meanwhile research guarantees them to a new team."""
    company = a_company()
    admin = admin_of(company.organization, Role.ORGANIZATION_ADMIN)
    edits = [(quota_of(company.vision).pk, QuotaEdit(guaranteed_mgpu=4_000))]
    planned = applied(admin, drafted(admin, company, edits=edits, revert_after_s=3_600))
    quota = quota_of(company.nlp)
    change_quota(
        quota.pk,
        QuotaEdit(guaranteed_mgpu=12_000),
        actor=admin,
        if_version=quota.version,
        reason="x",
        now=NOW,
    )

    carry_out_due(now=NOW + HOUR)

    status, note = status_of(planned)
    assert (status, gpus(company.nlp, company.vision)) == ("kept", [12, 4])
    assert note.startswith("vision would be guaranteed 8 GPUs, but research has 16")


# -- cancelled ----------------------------------------------------------------------------------


def test_drafts_and_scheduled_changes_are_cancelled_and_what_is_applied_is_kept() -> None:
    company = a_company()
    admin = admin_of(company.research)
    draft = drafted(admin, company)
    scheduled = applied(admin, drafted(admin, company, apply_at=NOW + HOUR))
    lasting = applied(admin, drafted(admin, company, revert_after_s=3_600))
    for planned in (draft, scheduled, lasting):
        cancel_planned(planned.pk, actor=admin, now=NOW)
    carry_out_due(now=NOW + 2 * HOUR)
    assert [status_of(one)[0] for one in (draft, scheduled, lasting)] == [
        "cancelled",
        "cancelled",
        "kept",
    ]
    assert (lasting.note, gpus(company.nlp)) == (f"{admin.user.login} decided to keep it.", [12])
    with pytest.raises(Exception, match=r"This change is kept\. Only a draft"):
        cancel_planned(lasting.pk, actor=admin, now=NOW)


def test_only_who_drafted_it_or_manages_quotas_there_cancels_it() -> None:
    company = a_company()
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    edits = [(quota_of(company.nlp).pk, QuotaEdit(weight=5))]
    planned = drafted(lead, company, edits=edits)
    beside = by_token(an_actor(company.vision, Role.TEAM_LEAD).user)
    assert beside.post(f"quota-changes/{planned.pk}/cancel", None).status_code == 404
    both = drafted(admin_of(company.research), company)
    assert beside.post(f"quota-changes/{both.pk}/cancel", None).status_code == 403
    assert beside.get(f"quota-changes/{both.pk}").json()["can_manage"] is False
    above = by_token(admin_of(company.research).user)
    assert above.post(f"quota-changes/{planned.pk}/cancel", None).json()["status"] == "cancelled"


def test_a_lead_keeps_nothing_that_the_parent_gave_for_a_time() -> None:
    """The lead keeps a lend limit, which is the node's own. Planted: the author may keep it all."""
    company = a_company()
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    admin = admin_of(company.research)
    Quota.objects.filter(node=company.vision).update(guaranteed_mgpu=4_000)
    quota = quota_of(company.nlp).pk
    lent = drafted(
        lead, company, edits=[(quota, QuotaEdit(guaranteed_mgpu=12_000))], revert_after_s=3_600
    )
    applied(admin, lent)
    caller = by_token(lead.user)
    answer = caller.post(f"quota-changes/{lent.pk}/cancel", None)
    assert (answer.status_code, answer.json()["detail"]) == (
        403,
        "You need the right manage_quota on ai-company/research to keep a change that was approved "
        "for a time (ai-company/research/nlp); ask an administrator of it.",
    )
    assert caller.get(f"quota-changes/{lent.pk}").json()["can_manage"] is False
    assert by_token(admin.user).get(f"quota-changes/{lent.pk}").json()["can_manage"] is True
    carry_out_due(now=NOW + HOUR)
    assert (status_of(lent)[0], gpus(company.nlp)) == ("reverted", [8])

    own = [(quota, QuotaEdit(lend_limit_mgpu=1_000))]
    limit = applied(lead, drafted(lead, company, edits=own, revert_after_s=3_600))
    assert caller.post(f"quota-changes/{limit.pk}/cancel", None).json()["status"] == "kept"


# -- lists and idempotency ----------------------------------------------------------------------


def test_the_list_is_newest_first_and_cut_by_status() -> None:
    company = a_company()
    admin = admin_of(company.research)
    first, second = drafted(admin, company), drafted(admin, company, reason="second")
    cancel_planned(first.pk, actor=admin, now=NOW)
    caller = by_token(admin.user)

    def listed(query: str = "") -> list[str]:
        return [item["reason"] for item in caller.get(f"quota-changes{query}").json()["items"]]

    assert listed() == ["second", "conference"]
    assert listed("?status=draft") == ["second"]
    assert caller.get("quota-changes?status=lost").status_code == 400
    assert second.version == 1


def test_a_repeated_draft_is_the_same_draft() -> None:
    company = a_company()
    admin = by_token(admin_of(company.research).user)
    body = {"edits": [{"quota": str(quota_of(company.nlp).pk), "weight": 5}], "reason": "x"}
    answers = [admin.post("quota-changes", body, idempotency_key="k") for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert (PlannedChange.objects.count(), answers[0].headers["ETag"]) == (
        1,
        answers[1].headers["ETag"],
    )


# -- what the database holds ----------------------------------------------------------------------


def refused(**values: Any) -> str:
    """The constraint that refuses a planned change with these values."""
    company = a_company()
    admin = admin_of(company.research)
    planned = drafted(admin, company)
    if values.get("decided"):
        values |= {"decided_by": admin.user, "decided_at": NOW}
    values.pop("decided", None)
    with pytest.raises(IntegrityError) as error, transaction.atomic():
        PlannedChange.objects.filter(pk=planned.pk).update(**values)
    return str(error.value.__cause__.diag.constraint_name)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"status": "lost", "ended_at": NOW}, "planned_change_has_a_status"),
        (
            {"status": "scheduled", "apply_at": NOW},
            "planned_change_was_decided_by_somebody",
        ),
        ({"decided": True}, "planned_change_was_decided_by_somebody"),
        ({"status": "scheduled", "decided": True}, "planned_change_is_scheduled_for_a_time"),
        ({"status": "applied", "decided": True}, "planned_change_knows_when_it_was_applied"),
        ({"applied_at": NOW}, "planned_change_knows_when_it_was_applied"),
        ({"revert_at": NOW}, "planned_change_is_reverted_after_it_was_applied"),
        (
            {"status": "reverted", "decided": True, "applied_at": NOW, "ended_at": NOW},
            "planned_change_is_reverted_as_was_planned",
        ),
        ({"status": "cancelled"}, "planned_change_has_an_end_when_it_ended"),
        ({"ended_at": NOW}, "planned_change_has_an_end_when_it_ended"),
        ({"revert_after_s": 59}, "planned_change_lasts_a_minute_to_a_year"),
    ],
)
def test_the_database_refuses_changes_that_contradict_themselves(
    values: dict[str, Any], constraint: str
) -> None:
    assert refused(**values) == constraint


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({}, "planned_edit_sets_something"),
        ({"gpus": 1}, "planned_edit_sets_something"),
        ({"guaranteed_mgpu": 1, "guaranteed_bp": 1}, "planned_edit_guarantees_one_way"),
    ],
)
def test_the_database_refuses_edits_that_mean_nothing(
    values: dict[str, Any], constraint: str
) -> None:
    company = a_company()
    planned = drafted(admin_of(company.research), company)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        planned.edits.update(values=values)


def test_the_database_refuses_a_second_edit_of_a_quota() -> None:
    company = a_company()
    drafted(admin_of(company.research), company)
    edit = PlannedEdit.objects.earliest("pk")
    edit.pk = None
    with pytest.raises(IntegrityError, match="quota_once_per_planned_change"), transaction.atomic():
        edit.save(force_insert=True)


def test_two_pools_are_changed_as_one() -> None:
    company = a_company()
    a10 = a_pool("a10")
    for node in (company.organization, company.research):
        a_quota(node, a10, 8)
    mine = a_quota(company.nlp, a10, 2)
    admin = admin_of(company.research)
    edits = [*moved(company), (mine.pk, QuotaEdit(guaranteed_mgpu=8_000))]

    planned = drafted(admin, company, edits=edits, revert_after_s=60)
    applied(admin, planned)
    mine.refresh_from_db()
    assert (gpus(company.nlp), mine.guaranteed_mgpu) == ([12], 8_000)
    carry_out_due(now=NOW + HOUR)
    mine.refresh_from_db()
    assert (gpus(company.nlp), mine.guaranteed_mgpu) == ([8], 2_000)
