"""Groups that an identity provider pushes by SCIM, and the roles that they give."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.identity_builders import a_group_mapping, an_identity_provider
from builders.portal_builders import NOW, a_grant
from builders.scim_builders import GROUP, ScimCaller, a_scim_caller
from identity.models import GroupMapping, GroupMembership, ProvisionedGroup
from identity.people import read_claims, sign_in_person
from identity.scim import groups
from tenants.models import RoleGrant, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NLP = ("researcher", "ai-company/research/nlp/", "gpu-nlp")
INFERENCE = ("team_lead", "ai-company/production/inference/", "gpu-inference")


@pytest.fixture
def cast() -> Cast:
    """The people of ai-company and rival-lab; gpu-nlp and gpu-inference give roles."""
    cast = a_cast()
    a_group_mapping(cast.nlp, "gpu-nlp")
    a_group_mapping(cast.inference, "gpu-inference", Role.TEAM_LEAD)
    return cast


@pytest.fixture
def scim(cast: Cast) -> ScimCaller:
    """The identity provider of ai-company."""
    return a_scim_caller(cast.organization, cast.alice)


@pytest.fixture
def maria(scim: ScimCaller) -> str:
    """The id of a pushed person without a group."""
    return str(scim.push("maria@example.org", externalId="maria")["id"])


def grants_of(person: str) -> set[tuple[str, str, str]]:
    """Role, path and group of the person's grants."""
    grants = RoleGrant.objects.select_related("node").filter(user=person)
    return {(each.role, each.node.path, each.group) for each in grants if each.node is not None}


def test_members_of_a_mapped_group_have_its_role_at_once(scim: ScimCaller, maria: str) -> None:
    """Against: membership that counts at the next sign-in only."""
    group = scim.push_group("gpu-nlp", maria)
    assert group["members"] == [
        {"value": maria, "$ref": f"http://testserver/scim/v2/Users/{maria}", "type": "User"}
    ]
    assert grants_of(maria) == {NLP}
    removal = {"op": "remove", "path": f'members[value eq "{maria}"]'}
    assert scim.patch(f"Groups/{group['id']}", removal).status_code == 204
    assert grants_of(maria) == set()
    assert "members" not in scim.send("GET", f"Groups/{group['id']}").json()
    assert [
        (event.action, event.actor[:10], event.detail.get("group"))
        for event in AuditEvent.objects.order_by("pk")[2:]
    ] == [
        ("role_granted", "SCIM token", "gpu-nlp"),
        ("provisioned_group_created", "SCIM token", "gpu-nlp"),
        ("role_revoked", "SCIM token", "gpu-nlp"),
        ("provisioned_group_changed", "SCIM token", "gpu-nlp"),
    ]


def member_operations(first: str, second: str) -> list[tuple[list[dict[str, Any]], set[str]]]:
    """Operations on a group of `first`, and its members after them."""
    entry = {"value": second}
    return [
        ([{"op": "add", "path": "members", "value": [entry]}], {first, second}),
        ([{"op": "Add", "path": "members", "value": [entry, entry]}], {first, second}),
        ([{"op": "add", "value": {"members": [entry]}}], {first, second}),
        ([{"op": "add", "path": "members", "value": entry}], {first, second}),
        ([{"op": "replace", "path": "members", "value": [entry]}], {second}),
        ([{"op": "replace", "value": {"members": [entry]}}], {second}),
        ([{"op": "replace", "path": "members", "value": []}], set()),
        ([{"op": "remove", "path": "members"}], set()),
        ([{"op": "Remove", "path": "members", "value": [{"value": first}]}], set()),
        (
            [{"op": "Remove", "path": "members", "value": [{"$ref": None, "value": second}]}],
            {first},
        ),
        ([{"op": "remove", "path": f'members[value eq "{second}"]'}], {first}),
        (
            [{"op": "remove", "path": f'members[value eq "{first}" or value eq "{second}"]'}],
            set(),
        ),
        (
            [
                {"op": "remove", "path": "members"},
                {"op": "add", "path": f"{GROUP}:members", "value": [entry]},
            ],
            {second},
        ),
    ]


def test_members_are_added_removed_and_replaced_in_every_form(scim: ScimCaller, maria: str) -> None:
    """Against: a replacement that adds; a removal of all where a value is named.

    The forms are those of RFC 7644, Okta and Entra ID.
    """
    bo = str(scim.push("bo@example.org")["id"])
    group = scim.push_group("gpu-nlp", maria)
    path = f"Groups/{group['id']}"
    for operations, expected in member_operations(maria, bo):
        scim.send("PUT", path, {**group, "members": [{"value": maria}]})
        answer = scim.patch(path, *operations)
        assert answer.status_code == 204, (operations, answer.content)
        found = scim.send("GET", path).json().get("members", [])
        assert {each["value"] for each in found} == expected, operations
        assert {pk for pk in (maria, bo) if grants_of(pk) == {NLP}} == expected, operations


def test_a_renamed_group_gives_the_roles_of_its_new_name(scim: ScimCaller, maria: str) -> None:
    """Against: roles of the former name that stay. Okta sends the id beside the new name."""
    group = scim.push_group("gpu-nlp", maria)
    renaming = {"op": "replace", "value": {"id": group["id"], "displayName": "gpu-inference"}}
    assert scim.patch(f"Groups/{group['id']}", renaming).status_code == 204
    assert grants_of(maria) == {INFERENCE}
    renaming = {"op": "Replace", "path": "displayName", "value": "no-role"}
    assert scim.patch(f"Groups/{group['id']}", renaming).status_code == 204
    assert grants_of(maria) == set()


def test_a_deleted_group_ends_its_roles_and_none_by_hand(
    cast: Cast, scim: ScimCaller, maria: str
) -> None:
    """Against: a deletion that leaves the roles; one that ends roles that a person granted."""
    a_grant(User.objects.get(pk=maria), Role.RESEARCHER, cast.nlp)
    group = scim.push_group("gpu-nlp", maria)
    assert grants_of(maria) == {NLP, ("researcher", "ai-company/research/nlp/", "")}
    assert scim.send("DELETE", f"Groups/{group['id']}").status_code == 204
    assert grants_of(maria) == {("researcher", "ai-company/research/nlp/", "")}
    assert scim.send("GET", f"Groups/{group['id']}").status_code == 404


def test_a_new_mapping_counts_for_members_at_once_and_a_removed_one_no_more(
    cast: Cast, scim: ScimCaller, maria: str
) -> None:
    """Against: a mapping that waits for the next push."""
    scim.push_group("gpu-all", maria)
    alice = by_token(cast.alice)
    made = alice.post(
        f"organizations/{cast.organization.pk}/group-mappings",
        {"group": "gpu-all", "role": "auditor", "node": "ai-company/research"},
    )
    assert made.status_code == 201
    assert grants_of(maria) == {("auditor", "ai-company/research/", "gpu-all")}
    assert alice.delete(f"group-mappings/{made.json()['id']}").status_code == 204
    assert grants_of(maria) == set()
    assert GroupMapping.objects.count() == 2


def test_a_deleted_person_loses_roles_and_a_deactivated_one_keeps_them(
    scim: ScimCaller, maria: str
) -> None:
    """Against: groups that are lost with a deactivation, which a provider does not push again."""
    scim.push_group("gpu-nlp", maria)
    operation = {"op": "replace", "path": "active", "value": False}
    scim.patch(f"Users/{maria}", operation)
    assert grants_of(maria) == {NLP}
    scim.send("DELETE", f"Users/{maria}")
    assert grants_of(maria) == set()


def test_of_a_pushed_group_only_members_have_roles_whatever_a_sign_in_says(
    cast: Cast, scim: ScimCaller, maria: str
) -> None:
    """Against: a sign-in that gives back what SCIM took, or takes what SCIM gave."""
    provider = an_identity_provider(cast.organization)

    def sign_in(*named: str) -> set[tuple[str, str, str]]:
        claims = read_claims({"sub": "maria", "groups": [*named]}, groups_claim="groups")
        assert str(sign_in_person(provider, claims, now=NOW).pk) == maria
        return grants_of(maria)

    assert sign_in("gpu-nlp", "gpu-inference") == {NLP, INFERENCE}
    # From now on gpu-nlp is SCIM's, and she is no member.
    group = scim.push_group("gpu-nlp")
    assert grants_of(maria) == {INFERENCE}
    assert sign_in("gpu-nlp", "gpu-inference") == {INFERENCE}
    scim.patch(
        f"Groups/{group['id']}", {"op": "add", "path": "members", "value": [{"value": maria}]}
    )
    assert sign_in() == {NLP}
    assert sign_in("gpu-inference") == {NLP, INFERENCE}
    scim.send("DELETE", f"Groups/{group['id']}")
    assert grants_of(maria) == {INFERENCE}
    assert sign_in("gpu-nlp") == {NLP}


def test_no_two_groups_have_one_name(scim: ScimCaller, maria: str) -> None:
    """Against: a second group of the same name, with which anybody gives themselves its roles."""
    first = scim.push_group("gpu-nlp", externalId="g1")
    other = scim.push_group("other", maria, externalId="g2")
    body = {"schemas": [GROUP], "displayName": "GPU-nlp", "members": [{"value": maria}]}
    answer = scim.send("POST", "Groups", body)
    assert (answer.status_code, answer.json()["scimType"]) == (409, "uniqueness")
    answer = scim.patch(
        f"Groups/{other['id']}", {"op": "replace", "path": "displayName", "value": "gpu-nlp"}
    )
    assert answer.status_code == 409
    answer = scim.send("PUT", f"Groups/{other['id']}", {**other, "externalId": "g1"})
    assert answer.status_code == 409
    assert grants_of(maria) == set()
    for name, values in (
        ("identity_display_name_is_one_group", {"display_name": "Gpu-NLP"}),
        ("identity_external_id_is_one_group", {"external_id": "g1"}),
    ):
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            ProvisionedGroup.objects.filter(pk=other["id"]).update(**values)
    assert scim.send("GET", f"Groups/{first['id']}").json() == first


def test_members_are_pushed_people_of_the_organization(
    cast: Cast, scim: ScimCaller, maria: str
) -> None:
    """Against: members without the check: people of rivals, robots, and accounts made by hand."""
    rival = a_scim_caller(cast.rival, cast.charlie)
    theirs = rival.push("theirs@example.org")["id"]
    group = scim.push_group("gpu-nlp", maria)
    gone = scim.push("gone@example.org")["id"]
    scim.send("DELETE", f"Users/{gone}")
    for stranger in (theirs, cast.service.pk, cast.root.pk, cast.bob.pk, gone, group["id"], "x", 3):
        operation = {"op": "add", "path": "members", "value": [{"value": stranger}]}
        if not isinstance(stranger, int | str):
            operation["value"] = [{"value": str(stranger)}]
        answer = scim.patch(f"Groups/{group['id']}", operation)
        assert answer.status_code == 400, stranger
        assert "Push the user first" in answer.json()["detail"]
    with pytest.raises(IntegrityError, match="member"), transaction.atomic():
        GroupMembership.objects.create(group_id=group["id"], person_id=theirs)
    assert scim.send("GET", f"Groups/{group['id']}").json() == group


def test_groups_of_another_organization_are_never_touched(cast: Cast, scim: ScimCaller) -> None:
    """Against: a query of groups without the organization of the token."""
    rival = a_scim_caller(cast.rival, cast.charlie)
    theirs = rival.push_group("gpu-nlp", rival.push("maria@example.org")["id"])
    path = f"Groups/{theirs['id']}"
    for answer in (
        scim.send("GET", path),
        scim.send("PUT", path, theirs),
        scim.patch(path, {"op": "remove", "path": "members"}),
        scim.send("DELETE", path),
    ):
        assert answer.status_code == 404
    assert scim.send("GET", "Groups").json()["totalResults"] == 0
    # A mapping of ai-company gives nobody of rival-lab a role.
    assert RoleGrant.objects.filter(group="gpu-nlp").count() == 0
    assert rival.send("GET", path).json() == theirs


def test_groups_are_found_by_name_id_and_member(scim: ScimCaller, maria: str) -> None:
    """Against: a question of Entra ID for one membership that reads all members.

    Planted: a join for members (both members: none; either: a group twice).
    """
    group = scim.push_group("gpu-nlp", maria, externalId="g1")
    scim.push_group("other")

    def found(query: str) -> list[dict[str, Any]]:
        return list(scim.send("GET", f"Groups?{query}").json()["Resources"])

    for text in (
        'displayName eq "GPU-NLP"',
        'externalId eq "g1"',
        f'members eq "{maria}"',
        f'id eq "{group["id"]}" and members.value eq "{maria}"',
    ):
        assert [each["id"] for each in found(f"filter={text}")] == [group["id"]], text
    assert found(f'filter=id eq "{group["id"]}" and members eq "nobody"') == []
    bo = scim.push("bo@example.org")["id"]
    both = scim.push_group("both", maria, bo)
    for text, wanted in (
        (f'members eq "{maria}" and members eq "{bo}"', [both["id"]]),
        (f'members eq "{bo}" or members.value eq "{maria}"', [group["id"], both["id"]]),
    ):
        assert sorted(each["id"] for each in found(f"filter={text}")) == sorted(wanted), text
    shown = found('filter=displayName eq "gpu-nlp"&excludedAttributes=members')
    assert "members" not in shown[0]


def test_a_page_of_groups_has_a_bounded_number_of_members(
    scim: ScimCaller, maria: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: 200 groups of 10,000 members in one answer."""
    monkeypatch.setattr("identity.api.scim_views._MEMBERS_PER_PAGE", 2)
    bo = scim.push("bo@example.org")["id"]
    for name in ("a", "b"):
        scim.push_group(name, maria, bo)
    body = scim.send("GET", "Groups").json()
    assert (body["totalResults"], body["itemsPerPage"]) == (2, 1)
    assert len(scim.send("GET", "Groups?excludedAttributes=members").json()["Resources"]) == 2


def test_groups_and_members_are_bounded(
    scim: ScimCaller, maria: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: no bound; one that counts repeated members of a request only."""
    monkeypatch.setattr(groups, "MEMBERS_MAX", 1)
    monkeypatch.setattr(groups, "GROUPS_MAX", 1)
    group = scim.push_group("gpu-nlp", maria)
    bo = scim.push("bo@example.org")["id"]
    for value in ([{"value": bo}], [{"value": bo}, {"value": maria}]):
        answer = scim.patch(
            f"Groups/{group['id']}", {"op": "add", "path": "members", "value": value}
        )
        assert answer.json()["detail"] == "A group has at most 1 members. Push several groups."
    answer = scim.send("POST", "Groups", {"schemas": [GROUP], "displayName": "b"})
    assert answer.status_code == 409


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": 'members[display eq "x"]'},
        {"op": "remove", "path": 'members[not (value eq "x")]'},
        {"op": "replace", "path": 'members[value eq "x"].type', "value": "Group"},
        {"op": "add", "path": "members.value", "value": "x"},
        {"op": "remove", "path": "displayName"},
        {"op": "add", "path": "members"},
        {"op": "add", "path": "members", "value": [{"display": "no id"}]},
        {"op": "replace", "path": "displayName", "value": "g" * 201},
    ],
)
def test_operations_on_members_that_do_not_fit_change_nothing(
    operation: dict[str, Any], scim: ScimCaller, maria: str
) -> None:
    """Against: a filter that nobody understood, which removes everybody."""
    group = scim.push_group("gpu-nlp", maria)
    answer = scim.patch(f"Groups/{group['id']}", {"op": "remove", "path": "members"}, operation)
    assert answer.status_code == 400, answer.content
    assert scim.send("GET", f"Groups/{group['id']}").json() == group
    assert grants_of(maria) == {NLP}
