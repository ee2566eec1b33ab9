"""Organizations, departments and teams over REST."""

from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import a_cast
from builders.portal_builders import a_department, an_organization
from tenants.models import Node
from tenants.structure import DEPTH_MAX

pytestmark = pytest.mark.django_db


def paths(answer: Any) -> list[str]:
    assert answer.status_code == 200
    return [item["path"] for item in answer.json()["items"]]


def test_a_team_is_made_below_a_department() -> None:
    cast = a_cast()
    answer = by_token(cast.research_admin).post(
        "teams", {"parent": "ai-company/research", "slug": "vision", "name": " Ｖision "}
    )
    assert answer.status_code == 201
    node = Node.objects.get(path="ai-company/research/vision/")
    assert answer.json() == {
        "id": str(node.pk),
        "kind": "team",
        "slug": "vision",
        "name": "Vision",
        "path": "ai-company/research/vision",
        "parent": "ai-company/research",
        "organization": "ai-company",
        "depth": 2,
        "archived_at": None,
    }
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.subject_kind, event.subject_id) == (
        "research-admin@ai-company",
        "team_created",
        "team",
        str(node.pk),
    )
    assert (event.organization_id, event.node_path) == (
        cast.organization.pk,
        "ai-company/research/vision/",
    )
    assert event.detail == {"slug": "vision", "name": "Vision"}
    assert event.request_id == answer["X-Request-ID"]


def test_only_platform_admins_make_and_rename_organizations() -> None:
    cast = a_cast()
    body = {"slug": "third", "name": "Third"}
    assert by_token(cast.alice).post("organizations", body).status_code == 403
    answer = by_token(cast.root).post("organizations", body)
    assert answer.status_code == 201
    assert answer.json()["parent"] is None
    assert answer.json()["organization"] == "third"
    assert answer.json()["depth"] == 0
    detail = f"organizations/{cast.organization.pk}"
    assert by_token(cast.alice).patch(detail, {"name": "Mine"}).status_code == 403
    assert by_token(cast.root).patch(detail, {"name": "AI Company"}).json()["name"] == "AI Company"
    event = AuditEvent.objects.get(action="organization_renamed")
    assert event.detail == {"before": "ai-company", "after": "AI Company"}


def test_lists_are_cut_to_ones_own_organization_and_in_the_order_of_paths() -> None:
    cast = a_cast()
    for user in (cast.bob, cast.alice, cast.dave, cast.finance):
        caller = by_token(user, ["read"])
        assert paths(caller.get("organizations")) == ["ai-company"]
        assert paths(caller.get("departments")) == ["ai-company/production", "ai-company/research"]
        assert paths(caller.get("teams")) == [
            "ai-company/production/inference",
            "ai-company/research/nlp",
        ]
    assert paths(by_token(cast.charlie).get("teams")) == ["rival-lab/team"]
    assert paths(by_token(cast.root).get("organizations")) == ["ai-company", "rival-lab"]


def test_filters_narrow_and_never_widen() -> None:
    cast = a_cast()
    bob = by_token(cast.bob)
    assert paths(bob.get("teams?parent=ai-company/research")) == ["ai-company/research/nlp"]
    assert paths(bob.get("teams?parent=ai-company/research/")) == ["ai-company/research/nlp"]
    assert paths(bob.get("teams?parent=ai-company")) == []
    assert paths(bob.get("teams?organization=rival-lab")) == []
    assert paths(bob.get("teams?parent=rival-lab")) == []
    assert paths(by_token(cast.root).get("teams?organization=rival-lab")) == ["rival-lab/team"]
    assert bob.get("teams?organisation=ai-company").status_code == 400
    assert paths(bob.get("teams?path=nlp")) == ["ai-company/research/nlp"]
    assert paths(bob.get("departments?path=nlp")) == []
    assert paths(bob.get("departments?path=research/")) == ["ai-company/research"]
    unknown = bob.get("teams?path=nlpp")
    assert (unknown.status_code, unknown.json()["detail"]) == (
        404,
        "There is no 'nlpp' that you can see. Did you mean ai-company/research/nlp?",
    )


def test_pages_follow_each_other() -> None:
    cast = a_cast()
    alice = by_token(cast.alice)
    first = alice.get("departments?limit=1").json()
    assert [item["slug"] for item in first["items"]] == ["production"]
    assert first["next"].startswith("/api/v1/departments?limit=1&cursor=")
    second = alice.get(first["next"].removeprefix("/api/v1/")).json()
    assert [item["slug"] for item in second["items"]] == ["research"]
    assert second["next"] is None


def test_a_cursor_of_one_is_no_way_into_the_tree_of_another() -> None:
    cast = a_cast()
    cursor = by_token(cast.alice).get("teams?limit=1").json()["next"].partition("?")[2]
    assert paths(by_token(cast.charlie).get("teams?" + cursor)) == ["rival-lab/team"]


def test_charlie_sees_and_changes_nothing_of_alices() -> None:
    cast = a_cast()
    charlie = by_token(cast.charlie)
    before = list(Node.objects.order_by("path").values())
    for kind, node in (
        ("organizations", cast.organization),
        ("departments", cast.research),
        ("teams", cast.nlp),
    ):
        assert charlie.get(f"{kind}/{node.pk}").status_code == 404
        assert charlie.patch(f"{kind}/{node.pk}", {"name": "Mine"}).status_code == 404
    for kind in ("departments", "teams"):
        for parent in ("ai-company", "ai-company/research", "ai-company/absent", "absent"):
            answer = charlie.post(kind, {"parent": parent, "slug": "x", "name": "x"})
            assert answer.status_code == 404
            assert answer.json()["detail"] == f"There is no {parent!r} that you can see."
    assert list(Node.objects.order_by("path").values()) == before
    assert AuditEvent.objects.count() == 0


def test_bob_sees_the_tree_and_changes_nothing() -> None:
    cast = a_cast()
    for user in (cast.bob, cast.finance, cast.auditor, cast.service, cast.nlp_lead, cast.dave):
        caller = by_token(user)
        assert caller.get(f"teams/{cast.nlp.pk}").json()["path"] == "ai-company/research/nlp"
        assert caller.patch(f"teams/{cast.nlp.pk}", {"name": "Mine"}).status_code == 403
        answer = caller.post("teams", {"parent": "ai-company/research", "slug": "x", "name": "x"})
        assert answer.status_code == 403
        assert answer.json()["permission"] == "manage_structure"
    assert Node.objects.get(pk=cast.nlp.pk).name == "nlp"


def test_a_department_admin_builds_in_their_own_department_only() -> None:
    cast = a_cast()
    caller = by_token(cast.research_admin)
    for parent, status in (
        ("ai-company/research", 201),
        ("ai-company/production", 403),
        ("ai-company", 403),
    ):
        answer = caller.post("departments", {"parent": parent, "slug": "new", "name": "New"})
        assert answer.status_code == status
    assert Node.objects.filter(slug="new").count() == 1
    assert caller.patch(f"departments/{cast.research.pk}", {"name": "R"}).status_code == 200
    assert caller.patch(f"departments/{cast.production.pk}", {"name": "P"}).status_code == 403


@pytest.mark.parametrize("scopes", [["read"], ["jobs"], ["quotas"], ["reports"], ["read", "jobs"]])
def test_a_token_without_the_scope_changes_nothing(scopes: list[str]) -> None:
    cast = a_cast()
    answer = by_token(cast.alice, scopes).post(
        "teams", {"parent": "ai-company", "slug": "x", "name": "x"}
    )
    assert answer.status_code == 403
    assert Node.objects.filter(slug="x").count() == 0


def test_a_token_without_any_scope_sees_nothing() -> None:
    cast = a_cast()
    assert paths(by_token(cast.alice, []).get("teams")) == []
    assert by_token(cast.alice, []).get(f"teams/{cast.nlp.pk}").status_code == 404


def test_ids_of_another_kind_are_absent() -> None:
    cast = a_cast()
    assert by_token(cast.alice).get(f"teams/{cast.research.pk}").status_code == 404
    assert by_token(cast.alice).get(f"organizations/{cast.nlp.pk}").status_code == 404


def test_a_taken_slug_is_a_conflict_and_the_same_slug_elsewhere_is_not() -> None:
    cast = a_cast()
    caller = by_token(cast.alice)
    body = {"parent": "ai-company/research", "slug": "nlp", "name": "x"}
    answer = caller.post("departments", body)
    assert answer.status_code == 409
    assert answer.json()["errors"] == [
        {"pointer": "/slug", "detail": "is taken here", "code": "taken"}
    ]
    assert caller.post("teams", {**body, "parent": "ai-company"}).status_code == 201


def test_nothing_lies_below_a_team() -> None:
    cast = a_cast()
    answer = by_token(cast.alice).post(
        "teams", {"parent": "ai-company/research/nlp", "slug": "x", "name": "x"}
    )
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/parent"


def test_departments_nest_to_twelve_levels() -> None:
    cast = a_cast()
    parent = an_organization("deep")
    for _ in range(DEPTH_MAX - 1):
        parent = a_department(parent)
    caller = by_token(cast.root)
    body = {"parent": parent.display_path, "slug": "last", "name": "Last"}
    answer = caller.post("departments", body)
    assert answer.status_code == 201
    assert answer.json()["depth"] == 12
    answer = caller.post("teams", {**body, "parent": answer.json()["path"]})
    assert answer.status_code == 400
    assert answer.json()["detail"] == "An organization has at most 12 levels."


def test_the_path_does_not_change() -> None:
    cast = a_cast()
    caller = by_token(cast.alice)
    for body in (
        {"slug": "other"},
        {"name": "x", "slug": "other"},
        {"name": "x", "parent": "ai-company"},
        {"name": "x", "kind": "department"},
        {"name": "x", "path": "ai-company"},
        {},
    ):
        assert caller.patch(f"teams/{cast.nlp.pk}", body).status_code == 400
    assert Node.objects.get(pk=cast.nlp.pk).path == "ai-company/research/nlp/"


def test_the_same_name_again_is_no_change() -> None:
    cast = a_cast()
    assert by_token(cast.alice).patch(f"teams/{cast.nlp.pk}", {"name": "nlp"}).status_code == 200
    assert AuditEvent.objects.count() == 0
