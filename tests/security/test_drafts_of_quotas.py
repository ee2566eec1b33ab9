"""Drafts of quota changes are read by whoever may make them and by the leads that they concern."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import a_cast
from builders.hints import hints_told
from builders.portal_builders import NOW, Company, a_company, an_actor
from quotas.administration import QuotaEdit
from quotas.models import PlannedChange, Quota
from quotas.planned_changes import apply_planned, cancel_planned, carry_out_due, draft_change
from quotas.planned_reading import etag_of_planned, visible_planned
from tenants.access import Actor, actor_of
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db
READERS = {"root", "alice", "research_admin", "nlp_lead"}
OTHERS = {"production_admin", "bob", "finance", "auditor", "service", "charlie"}


def a_draft(company: Company, node: Node, actor: Actor, **given: Any) -> PlannedChange:
    quota = Quota.objects.get(node=node, pool=company.pool)
    times = {"apply_at": None, "revert_after_s": None, **given}
    return draft_change(
        [(quota.pk, QuotaEdit(lend_limit_mgpu=1_000))],
        reason="the secret project",
        actor=actor,
        now=NOW,
        **times,
    )


def readers_of(planned: PlannedChange, people: dict[str, Actor]) -> set[str]:
    return {
        name
        for name, actor in people.items()
        if visible_planned(actor).filter(pk=planned.pk).exists()
    }


def the_cast(company: Company) -> dict[str, Actor]:
    cast = a_cast(company)
    return {name: actor_of(getattr(cast, name)) for name in sorted(READERS | OTHERS)}


def test_a_draft_of_a_team_is_read_by_its_lead_and_the_administrators_above() -> None:
    """Against: everybody of the organization, as before (dies on all of the second half)."""
    company = a_company()
    people = the_cast(company)
    planned = a_draft(company, company.nlp, people["research_admin"])
    assert readers_of(planned, people) == READERS
    for name in sorted(OTHERS):
        caller = by_token(people[name].user)
        assert caller.get("quota-changes").json()["items"] == []
        path = f"quota-changes/{planned.pk}"
        answers = [
            caller.get(path),
            caller.post(f"{path}/preview", {}),
            caller.post(f"{path}/apply", None, if_match='"x"'),
            caller.post(f"{path}/cancel", None),
        ]
        assert [answer.status_code for answer in answers] == [404] * 4, name
        assert b"secret project" not in b"".join(answer.content for answer in answers)


def test_a_draft_of_a_department_is_read_by_the_leads_below_it_and_of_no_other() -> None:
    """Against: the paths of the nodes above a lead's team built without their last slash."""
    company = a_company()
    people = the_cast(company)
    people["inference_lead"] = an_actor(company.inference, Role.TEAM_LEAD)
    planned = a_draft(company, company.research, people["alice"])
    assert readers_of(planned, people) == READERS
    ours = a_draft(company, company.production, people["alice"])
    assert readers_of(ours, people) == {"root", "alice", "production_admin", "inference_lead"}


def test_whoever_drafted_reads_on_after_losing_the_role_but_not_as_a_stranger() -> None:
    company = a_company()
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    planned = a_draft(company, company.nlp, lead)
    lead.user.grants.all().delete()
    assert list(visible_planned(actor_of(lead.user))) == [planned]
    lead.user.is_active = False
    assert list(visible_planned(actor_of(lead.user))) == []


def test_a_token_that_only_reads_shows_what_its_owner_reads_and_a_token_of_reports_too() -> None:
    """Against: the scopes of the token decide whether its owner manages quotas."""
    company = a_company()
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    planned = a_draft(company, company.nlp, lead)
    path = f"quota-changes/{planned.pk}"
    read = [by_token(lead.user, [scope]).get(path).status_code for scope in ("read", "reports")]
    assert read == [200, 200]
    assert by_token(lead.user, []).get(path).status_code == 404


@pytest.mark.parametrize(
    ("ending", "is_history"),
    [("cancelled", False), ("expired", False), ("scheduled", False), ("applied", True)],
)
def test_what_took_effect_is_history_for_everybody_and_all_else_stays_a_draft(
    ending: str, is_history: bool
) -> None:
    company = a_company()
    people = the_cast(company)
    lead = people["nlp_lead"]
    at = NOW + timedelta(hours=1) if ending == "scheduled" else None
    planned = a_draft(company, company.nlp, lead, apply_at=at)
    if ending == "cancelled":
        cancel_planned(planned.pk, actor=lead, now=NOW)
    elif ending == "expired":
        assert carry_out_due(now=NOW + timedelta(days=8)) == 1
    else:
        apply_planned(planned.pk, if_match=etag_of_planned(planned), actor=lead, now=NOW)
    planned.refresh_from_db()
    assert planned.status == ending
    everybody_here = (READERS | OTHERS) - {"charlie"}
    assert readers_of(planned, people) == (everybody_here if is_history else READERS)


def test_the_audit_log_and_hints_tell_that_there_is_a_draft_and_nothing_of_it() -> None:
    """An auditor reads who drafted and cancelled; the reason stands there once it is applied.

    Against: the reason in every event; the draft's id in its hint."""
    company = a_company()
    people = the_cast(company)
    with hints_told() as hints:
        planned = a_draft(company, company.nlp, people["nlp_lead"])
        cancel_planned(planned.pk, actor=people["nlp_lead"], now=NOW)
    assert [(one["topic"], one["ids"]) for one in hints] == [("quotas", []), ("quotas", [])]
    events = by_token(people["auditor"].user).get("audit-events").json()["items"]
    assert [(one["action"], one["actor"]) for one in events] == [
        ("quota_change.cancelled", people["nlp_lead"].user.login),
        ("quota_change.drafted", people["nlp_lead"].user.login),
    ]
    assert "secret project" not in json.dumps(events)

    with hints_told() as hints:
        done = a_draft(company, company.nlp, people["nlp_lead"])
        actor = people["nlp_lead"]
        apply_planned(done.pk, if_match=etag_of_planned(done), actor=actor, now=NOW)
    assert str(done.pk) in [pk for one in hints for pk in one["ids"]]
    last = AuditEvent.objects.filter(subject_kind="quota_change").latest("pk")
    assert (last.action, last.detail) == (
        "quota_change.applied",
        {"reason": "the secret project"},
    )
