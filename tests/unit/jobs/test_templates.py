"""Templates of teams: leads write them, and submissions keep what they lock."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.portal_builders import NOW, Company, a_grant, a_user
from jobs.models import Job, JobTemplate
from jobs.templates import templates
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NLP = "ai-company/research/nlp"
REQUEST = {
    "gpus": 2,
    "time_limit": "2h",
    "environment": {"A": "1", "B": "2"},
    "script": "#!/bin/sh\ntrain\n",
}


@pytest.fixture
def lead(company: Company) -> User:
    user = a_user(company.organization, "lead")
    a_grant(user, Role.TEAM_LEAD, company.nlp)
    return user


def created(lead: User, **changes: Any) -> dict[str, Any]:
    body = {"team": NLP, "name": "train", "request": REQUEST, "locked": ["gpus"], **changes}
    answer = by_token(lead).post("job-templates", body)
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def submitted(user: User, template: dict[str, Any], **changes: Any) -> Any:
    return by_token(user).post("jobs", {"template": template["id"], **changes})


def test_a_lead_makes_changes_and_deletes_a_template(company: Company, lead: User) -> None:
    """Against: no audit event of a change; the version unchanged."""
    made = created(lead, description="Two GPUs.")
    assert made | {"id": "", "changed_at": ""} == {
        "id": "",
        "team": NLP,
        "name": "train",
        "description": "Two GPUs.",
        "request": REQUEST,
        "locked": ["gpus"],
        "version": 1,
        "changed_at": "",
        "can": ["change", "delete"],
    }
    path = f"job-templates/{made['id']}"
    changed = by_token(lead).patch(path, {"locked": ["script", "gpus"]}, if_match='"v1"')
    assert (changed.json()["locked"], changed["ETag"]) == (["gpus", "script"], '"v2"')
    stale = by_token(lead).patch(path, {"name": "x"}, if_match='"v1"')
    assert (stale.status_code, stale.json()["current"]["version"]) == (412, 2)
    assert by_token(lead).patch(path, {"name": "x"}).status_code == 428
    assert by_token(lead).delete(path, if_match='"v2"').status_code == 204
    events = AuditEvent.objects.filter(subject_kind="job_template").order_by("pk")
    assert [(one.action, one.node_path, one.detail) for one in events] == [
        (
            f"template_{action}",
            f"{NLP}/",
            {
                "name": "train",
                "members": ["environment", "gpus", "script", "time_limit"],
                "locked": locked,
            },
        )
        for action, locked in [
            ("created", ["gpus"]),
            ("changed", ["gpus", "script"]),
            ("deleted", ["gpus", "script"]),
        ]
    ]


def test_members_of_the_team_use_templates_and_others_do_not_see_them(
    company: Company, bob: User, lead: User
) -> None:
    """Against: templates for all who see the tree, although they have scripts."""
    made = created(lead)
    seen = by_token(bob).get(f"job-templates?team={NLP}").json()["items"]
    assert [(one["name"], one["can"]) for one in seen] == [("train", [])]
    path = f"job-templates/{made['id']}"
    assert by_token(bob).patch(path, {"name": "x"}, if_match='"v1"').status_code == 403
    assert by_token(bob).delete(path, if_match='"v1"').status_code == 403
    body = {"team": NLP, "name": "own", "request": {"gpus": 1}}
    assert by_token(bob).post("job-templates", body).status_code == 403
    auditor = a_user(company.organization, "eve")
    a_grant(auditor, Role.AUDITOR, company.organization)
    assert by_token(auditor).get("job-templates").json()["items"] == []
    assert by_token(auditor).get(path).status_code == 404


@pytest.mark.parametrize(
    ("changes", "pointer", "detail"),
    [
        ({"team": "ai-company/research"}, "/team", "is not a team: "),
        ({"request": {"gpus": 0}}, "/request/gpus", "must be above 0"),
        ({"request": {"grup": 1}}, "/request/grup", "is not a member"),
        ({"request": {"gpus": 1, "team": NLP}}, "/request/team", "is given by each submission"),
        ({"request": {"nodes": 2}}, "/locked", "names gpus, which the request does not give"),
    ],
)
def test_a_template_that_cannot_be_is_refused(
    company: Company, lead: User, changes: dict[str, Any], pointer: str, detail: str
) -> None:
    a_grant(lead, Role.DEPARTMENT_ADMIN, company.research)
    body = {"team": NLP, "name": "train", "request": REQUEST, "locked": ["gpus"], **changes}
    (error,) = by_token(lead).post("job-templates", body).json()["errors"]
    assert (error["pointer"], error["detail"][: len(detail)]) == (pointer, detail)


def test_a_team_has_a_name_once_and_a_bounded_number(
    company: Company, lead: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: the error of the database."""
    created(lead)
    body = {"team": NLP, "name": "train", "request": REQUEST}
    twice = by_token(lead).post("job-templates", body)
    assert (twice.status_code, twice.json()["detail"]) == (
        409,
        f"{NLP} has a template named train already.",
    )
    monkeypatch.setattr(templates, "TEMPLATES_PER_TEAM_MAX", 1)
    more = by_token(lead).post("job-templates", {**body, "name": "other"})
    assert (more.status_code, more.json()["detail"]) == (
        409,
        f"{NLP} has 1 templates, the most of a team. Delete one first.",
    )


def test_a_submission_completes_its_template(company: Company, bob: User, lead: User) -> None:
    """Against: the template's time limit beside the own; environment replaced as a whole."""
    answer = submitted(
        bob, created(lead), name="mine", time_limit_s=60, environment={"B": "3", "C": "4"}
    )
    assert answer.status_code == 201, answer.content
    job = Job.objects.get(pk=answer.json()["id"])
    assert (job.name, job.team, job.mgpu, job.time_limit_s) == ("mine", company.nlp, 2_000, 60)
    assert job.environment == {"A": "1", "B": "3", "C": "4"}
    assert job.script == REQUEST["script"]


@pytest.mark.parametrize(
    ("locked", "given", "pointer", "named"),
    [
        ("gpus", {"gpus": 4}, "/gpus", "gpus"),
        ("gpus", {"gpus_per_node": 4}, "/gpus_per_node", "gpus"),
        ("gpus", {"gpus_min": 1}, "/gpus_min", "gpus"),
        ("time_limit", {"time_limit_s": 60}, "/time_limit_s", "time_limit"),
        ("script", {"manifest": "x"}, "/manifest", "script"),
        ("environment", {"environment": {"A": "2"}}, "/environment", "environment"),
    ],
)
def test_a_locked_member_is_refused(
    company: Company,
    bob: User,
    lead: User,
    locked: str,
    given: dict[str, Any],
    pointer: str,
    named: str,
) -> None:
    """Against: only the locked member itself, so that another of the same meaning passed."""
    refused = submitted(bob, created(lead, locked=[locked]), **given)
    assert refused.status_code == 400
    assert refused.json()["errors"] == [
        {
            "pointer": pointer,
            "detail": f"is set by the template train, which locks {named}; leave it out",
            "code": "locked",
        }
    ]
    assert not Job.objects.exists()


def test_a_locked_member_may_be_repeated(company: Company, bob: User, lead: User) -> None:
    assert submitted(bob, created(lead), gpus=2).status_code == 201


def test_lines_of_a_script_do_not_change_a_locked_member(
    company: Company, bob: User, lead: User
) -> None:
    """Against: #SBATCH lines read after the template."""
    text = "#!/bin/sh\n#SBATCH --gpus=8 --time=9\ntrue\n"
    answer = submitted(bob, created(lead), sbatch=text)
    assert answer.status_code == 201, answer.content
    job = Job.objects.get()
    assert (job.mgpu, job.script, job.time_limit_s) == (2_000, text, 7_200)


def test_a_template_is_of_its_team(company: Company, bob: User, lead: User) -> None:
    """Against: the team of the body, with a template of another one."""
    made = created(lead)
    a_grant(bob, Role.RESEARCHER, company.vision)
    (error,) = submitted(bob, made, team="ai-company/research/vision").json()["errors"]
    assert error["detail"] == f"must be {NLP}, the team of the template, or be absent"
    for wrong in ("x", 7, "01a1fd00-0000-7000-8000-000000000001"):
        (error,) = by_token(bob).post("jobs", {"template": wrong, "team": NLP}).json()["errors"]
        assert (error["pointer"], error["code"]) == ("/template", "not_found")


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ({"locked": ["gpus", "pool"]}, "template_locks_its_own_members"),
        ({"name": ""}, "template_has_a_name"),
        ({"version": 0}, "template_version_counts"),
    ],
)
def test_the_database_keeps_templates_whole(
    company: Company, change: dict[str, Any], constraint: str
) -> None:
    row = {"team": company.nlp, "name": "a", "request": {"gpus": 1}, "changed_at": NOW, **change}
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        JobTemplate.objects.create(**row)
