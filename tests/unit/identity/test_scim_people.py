"""People whom an identity provider pushes by SCIM."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import a_token, by_session, by_token, with_secret
from builders.cast import Cast, a_cast
from builders.identity_builders import an_identity_provider
from builders.portal_builders import NOW, a_grant
from builders.scim_builders import USER, ScimCaller, a_scim_caller
from identity.models import ExternalIdentity, GroupMembership, ProvisionedPerson, ScimSettings
from identity.scim import people
from identity.scim.patching import OPERATIONS_MAX
from tenants.models import AccessToken, RoleGrant, Session, User, UserKind
from tenants.roles import Role

pytestmark = pytest.mark.django_db

MARIA = "maria@example.org"


@pytest.fixture
def cast() -> Cast:
    """The people of ai-company and rival-lab."""
    return a_cast()


@pytest.fixture
def scim(cast: Cast) -> ScimCaller:
    """The identity provider of ai-company."""
    return a_scim_caller(cast.organization, cast.alice)


def account(pushed: dict[str, Any]) -> User:
    return User.objects.get(pk=pushed["id"])


def refused(answer: Any, status: int, kind: str | None = None) -> str:
    """The sentence of a refusal in the form of SCIM."""
    body = answer.json()
    assert (answer.status_code, body["status"]) == (status, str(status)), body
    assert body["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert body.get("scimType") == kind
    assert answer.headers["Content-Type"].startswith("application/scim+json")
    return str(body["detail"])


def test_a_pushed_person_is_an_account_without_a_role_or_password(
    cast: Cast, scim: ScimCaller
) -> None:
    """Against: a username with @, which would be another login; a role by a push."""
    pushed = scim.push(
        "Maria.Silva@example.org",
        externalId="00u1",
        name={"givenName": "Maria", "familyName": "Silva"},
        emails=[
            {"value": "other@example.org"},
            {"value": "maria@example.org", "type": "work", "primary": True},
        ],
        active=True,
        title="ignored",
    )
    user = account(pushed)
    assert (user.login, user.name) == ("maria.silva@ai-company", "Maria Silva")
    assert (user.email, user.kind, user.is_active) == ("maria@example.org", "person", True)
    assert (user.organization, user.has_usable_password()) == (cast.organization, False)
    assert RoleGrant.objects.filter(user=user).count() == 0
    assert "title" not in pushed
    assert pushed["meta"]["location"] == f"http://testserver/scim/v2/Users/{user.pk}"
    assert scim.send("GET", f"Users/{user.pk}").json() == pushed


def test_each_write_is_audited_with_the_token_as_actor(cast: Cast, scim: ScimCaller) -> None:
    """Against: acts without the token's name; a deactivation by nobody."""
    pushed = scim.push(MARIA)
    scim.patch(f"Users/{pushed['id']}", {"op": "replace", "path": "active", "value": False})
    scim.send("DELETE", f"Users/{pushed['id']}")
    events = AuditEvent.objects.order_by("pk")
    assert [event.action for event in events] == [
        "user_created",
        "provisioned_person_created",
        "user_deactivated",
        "provisioned_person_changed",
        "provisioned_person_deleted",
    ]
    names = {event.actor for event in events}
    assert len(names) == 1
    assert names.pop().startswith("SCIM token Okta (tds_")
    assert {event.organization_id for event in events} == {cast.organization.pk}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "active", "value": False},
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "Add", "path": "active", "value": "False"},
        {"op": "replace", "value": {"active": False}},
        {"op": "Replace", "value": {"active": "False"}},
    ],
)
def test_a_deactivation_ends_sessions_and_tokens(
    operation: dict[str, Any], scim: ScimCaller
) -> None:
    """Against: a row that says inactive beside an account that works.

    Entra ID writes `Replace`, `Add` and the text "False".
    """
    pushed = scim.push(MARIA)
    user = account(pushed)
    secret = a_token(user)[1]
    browser = by_session(user)
    assert browser.get("session").json()["user"]["login"] == user.login
    assert Session.objects.filter(user=user).count() == 1
    answer = scim.patch(f"Users/{user.pk}", operation)
    assert (answer.status_code, answer.json()["active"]) == (200, False)
    user.refresh_from_db()
    assert (user.is_active, user.session_generation) == (False, 1)
    assert Session.objects.filter(user=user).count() == 0
    assert AccessToken.objects.get(user=user).revoked_at is not None
    assert browser.get("session").status_code == 401
    assert with_secret(secret).get("tokens").status_code == 401


def test_a_reactivation_gives_the_account_back_without_its_tokens(scim: ScimCaller) -> None:
    """Against: revoked tokens that work again."""
    pushed = scim.push(MARIA, active=False)
    user = account(pushed)
    assert user.is_active is False
    secret = a_token(user, revoked_at=NOW)[1]
    answer = scim.patch(f"Users/{user.pk}", {"op": "replace", "value": {"active": "True"}})
    assert answer.json()["active"] is True
    assert account(pushed).is_active is True
    assert with_secret(secret).get("tokens").status_code == 401


def test_a_deleted_person_is_gone_from_scim_and_the_account_stays(scim: ScimCaller) -> None:
    """Against: a delete of the row, whose account could sign in again."""
    pushed = scim.push(MARIA, externalId="00u1")
    group = scim.push_group("gpu", pushed["id"])
    assert scim.send("DELETE", f"Users/{pushed['id']}").status_code == 204
    assert account(pushed).is_active is False
    assert refused(scim.send("GET", f"Users/{pushed['id']}"), 404).startswith("There is no such")
    assert refused(scim.send("DELETE", f"Users/{pushed['id']}"), 404)
    assert scim.send("GET", "Users").json()["totalResults"] == 0
    assert GroupMembership.objects.filter(group=group["id"]).count() == 0


def test_a_deleted_person_comes_back_by_external_id_only(scim: ScimCaller) -> None:
    """Against: the account of a former employee for the next person with the same name."""
    first = scim.push(MARIA, externalId="00u1")
    scim.send("DELETE", f"Users/{first['id']}")
    other = scim.push(MARIA, externalId="00u2")
    assert other["id"] != first["id"]
    assert account(other).login == "maria-2@ai-company"
    scim.send("DELETE", f"Users/{other['id']}")
    again = scim.push(MARIA, externalId="00u1")
    assert again["id"] == first["id"]
    assert account(again).is_active is True


def test_no_two_people_have_one_name_or_external_id(scim: ScimCaller) -> None:
    """Against: names that are compared with regard to case."""
    scim.push(MARIA, externalId="00u1")
    other = scim.push("bo@example.org", externalId="00u2")
    for body in (
        {"userName": "MARIA@example.org"},
        {"userName": "new@example.org", "externalId": "00u1"},
    ):
        answer = scim.send("POST", "Users", {"schemas": [USER], **body})
        assert "already" in refused(answer, 409, "uniqueness") or "externalId" in str(
            answer.content
        )
    operation = {"op": "replace", "path": "userName", "value": MARIA}
    assert refused(scim.patch(f"Users/{other['id']}", operation), 409, "uniqueness")
    with pytest.raises(IntegrityError, match="identity_external_id_is_one_person"):
        ProvisionedPerson.objects.filter(pk=other["id"]).update(external_id="00u1")


def test_a_new_name_at_the_provider_keeps_login_and_history(scim: ScimCaller) -> None:
    """Against: a login that changes under jobs and bills."""
    pushed = scim.push(MARIA, displayName="Maria")
    answer = scim.send(
        "PUT",
        f"Users/{pushed['id']}",
        {"schemas": [USER], "userName": "maria.new@example.org", "displayName": "Maria New"},
    )
    assert answer.json()["userName"] == "maria.new@example.org"
    assert "active" not in answer.json()
    user = account(pushed)
    assert (user.login, user.name, user.is_active) == ("maria@ai-company", "Maria New", True)


def test_addresses_of_entra_are_added_by_their_kind(scim: ScimCaller) -> None:
    """Against: `emails[type eq "work"].value` refused where there is no such address yet."""
    pushed = scim.push(MARIA)
    path = f"Users/{pushed['id']}"
    for value in ("maria@example.org", "maria@example.com"):
        answer = scim.patch(
            path, {"op": "Add", "path": 'emails[type eq "work"].value', "value": value}
        )
        assert answer.json()["emails"] == [{"value": value, "type": "work"}]
        assert account(pushed).email == value
    answer = scim.patch(
        path,
        {"op": "Add", "path": "name.givenName", "value": "Maria"},
        {
            "op": "Add",
            "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department",
            "value": "research",
        },
    )
    assert (answer.status_code, answer.json()["name"]) == (200, {"givenName": "Maria"})


def test_the_last_administrator_stays(cast: Cast, scim: ScimCaller) -> None:
    """Against: a deactivation without the check. An organization would be without anybody."""
    ScimSettings.objects.update(adopts_accounts=True)
    User.objects.filter(pk=cast.alice.pk).update(email="alice@example.org")
    pushed = scim.push("alice@example.org")
    assert pushed["id"] == str(cast.alice.pk)
    for answer in (
        scim.patch(f"Users/{cast.alice.pk}", {"op": "replace", "path": "active", "value": False}),
        scim.send("DELETE", f"Users/{cast.alice.pk}"),
    ):
        assert refused(answer, 409).startswith("This is the last administrator of ai-company")
    assert account(pushed).is_active is True
    assert ProvisionedPerson.objects.get(pk=cast.alice.pk).deleted_at is None
    a_grant(cast.bob, Role.ORGANIZATION_ADMIN, cast.organization)
    assert scim.send("DELETE", f"Users/{cast.alice.pk}").status_code == 204


def test_an_existing_account_is_taken_over_only_where_the_organization_says_so(
    cast: Cast, scim: ScimCaller
) -> None:
    """Against: a push that takes over an account of the same name by itself."""
    body = {"schemas": [USER], "userName": "bob@example.org"}
    sentence = refused(scim.send("POST", "Users", body), 409, "uniqueness")
    assert "bob@ai-company" in sentence
    assert "switch on" in sentence
    ScimSettings.objects.update(adopts_accounts=True)
    assert scim.push("bob@example.org")["id"] == str(cast.bob.pk)
    cast.grant_of(cast.bob)


def test_an_account_of_somebody_else_is_never_taken_over(cast: Cast, scim: ScimCaller) -> None:
    """Alice administers, and bob has another address. Planted: the username is enough."""
    ScimSettings.objects.update(adopts_accounts=True)
    User.objects.filter(pk=cast.bob.pk).update(email="bob@ai.example")
    for name in ("alice", "bob"):
        body = {"schemas": [USER], "userName": f"{name}@subsidiary.example"}
        sentence = refused(scim.send("POST", "Users", body), 409, "uniqueness")
        assert sentence.startswith(f"The account {name}@ai-company has another email address")
    assert not ProvisionedPerson.objects.exists()
    assert scim.push("BOB@ai.example")["id"] == str(cast.bob.pk)


def test_an_account_that_an_administrator_deactivated_stays_so(
    cast: Cast, scim: ScimCaller
) -> None:
    """SCIM undoes its own deactivations alone. Planted: each push reactivates; off and on does."""
    pushed = scim.push(MARIA, externalId="00u7")
    path = f"Users/{pushed['id']}"
    body = {"schemas": [USER], "userName": MARIA, "externalId": "00u7", "active": True}
    scim.send("PUT", path, {**body, "active": False})
    assert scim.send("PUT", path, body).json()["active"] is True
    User.objects.filter(pk=pushed["id"]).update(is_active=False)
    assert scim.send("PUT", path, body).json()["active"] is False
    scim.send("PUT", path, {**body, "active": False})
    assert scim.send("PUT", path, body).json()["active"] is False
    assert scim.send("DELETE", path).status_code == 204
    assert scim.push(MARIA, externalId="00u7", active=True)["active"] is False
    User.objects.filter(pk=pushed["id"]).update(is_active=True)
    assert scim.send("DELETE", path).status_code == 204
    assert scim.push(MARIA, externalId="00u7", active=True)["active"] is True


def test_the_last_act_of_an_administrator_wins_over_an_earlier_one_of_scim(
    cast: Cast, scim: ScimCaller
) -> None:
    """Off by SCIM, on and off by an administrator, without a push between.

    Planted: the administrator's acts leave the mark of SCIM.
    """
    pushed = scim.push(MARIA, externalId="00u7")
    path = f"Users/{pushed['id']}"
    body = {"schemas": [USER], "userName": MARIA, "externalId": "00u7", "active": True}
    scim.send("PUT", path, {**body, "active": False})
    alice = by_token(cast.alice)
    assert alice.patch(f"users/{pushed['id']}", {"is_active": True}).status_code == 200
    deactivated = alice.post(f"users/{pushed['id']}/deactivate", {})
    assert deactivated.status_code == 200, deactivated.content
    assert scim.send("PUT", path, body).json()["active"] is False


def test_a_person_who_signed_in_before_is_the_same_by_subject(cast: Cast, scim: ScimCaller) -> None:
    """Against: a second account beside the one of the first sign-in; another provider's subject."""
    provider = an_identity_provider(cast.organization)
    rival = an_identity_provider(cast.rival)
    for row, subject, user in ((provider, "00u1", cast.bob), (rival, "00u2", cast.charlie)):
        ExternalIdentity.objects.create(
            provider=row,
            issuer=row.issuer,
            subject=subject,
            user=user,
            created_at=NOW,
            used_at=NOW,
        )
    assert scim.push("robert@example.org", externalId="00u1")["id"] == str(cast.bob.pk)
    assert scim.push("charles@example.org", externalId="00u2")["id"] != str(cast.charlie.pk)


def test_service_accounts_are_never_touched(cast: Cast, scim: ScimCaller) -> None:
    """Against: a search of namesakes without the kind, and a push that owns a robot."""
    ScimSettings.objects.update(adopts_accounts=True)
    pushed = scim.push("robot@example.org", active=False)
    assert account(pushed).login == "robot-2@ai-company"
    cast.service.refresh_from_db()
    assert (cast.service.is_active, cast.service.kind) == (True, UserKind.SERVICE)
    assert refused(scim.send("DELETE", f"Users/{cast.service.pk}"), 404)
    with pytest.raises(IntegrityError, match="same organization"), transaction.atomic():
        a_row(cast.service, cast)


def test_platform_administrators_are_never_touched(cast: Cast, scim: ScimCaller) -> None:
    """Against: a search of accounts by username alone."""
    ScimSettings.objects.update(adopts_accounts=True)
    assert account(scim.push("root@example.org")).organization == cast.organization
    assert refused(scim.send("DELETE", f"Users/{cast.root.pk}"), 404)
    cast.root.refresh_from_db()
    assert cast.root.is_active is True
    # Nor does anybody of the organization become one.
    with pytest.raises(IntegrityError, match="inside the organization"), transaction.atomic():
        a_grant(cast.dave, Role.PLATFORM_ADMIN, None)
    with pytest.raises(IntegrityError, match="same organization"), transaction.atomic():
        a_row(cast.root, cast)


def test_people_of_another_organization_are_never_touched(cast: Cast, scim: ScimCaller) -> None:
    """Against: a query of people without the organization of the token."""
    rival = a_scim_caller(cast.rival, cast.charlie)
    theirs = rival.push(MARIA, externalId="00u1")
    ours = scim.push(MARIA, externalId="00u1")
    assert ours["id"] != theirs["id"]
    path = f"Users/{theirs['id']}"
    body = {"schemas": [USER], "userName": "x@example.org"}
    operation = {"op": "replace", "path": "active", "value": False}
    for answer in (
        scim.send("GET", path),
        scim.send("PUT", path, body),
        scim.patch(path, operation),
        scim.send("DELETE", path),
    ):
        assert refused(answer, 404)
    assert [each["id"] for each in scim.send("GET", "Users").json()["Resources"]] == [ours["id"]]
    assert rival.send("GET", path).json() == theirs
    with pytest.raises(IntegrityError, match="same organization"), transaction.atomic():
        a_row(cast.charlie, cast)


def a_row(user: User, cast: Cast) -> ProvisionedPerson:
    return ProvisionedPerson.objects.create(
        user=user,
        organization=cast.organization,
        user_name="x",
        attributes={},
        created_at=NOW,
        changed_at=NOW,
    )


def test_the_address_of_people_with_power_by_hand_stays(cast: Cast, scim: ScimCaller) -> None:
    """Against: an administrator's new address, to which a password link would go."""
    ScimSettings.objects.update(adopts_accounts=True)
    lead = f"{cast.nlp_lead.username}@x.org"
    User.objects.filter(pk=cast.nlp_lead.pk).update(email=lead)
    for user in (cast.nlp_lead, cast.bob):
        scim.push(f"{user.username}@x.org", emails=[{"value": "evil@x.org", "primary": True}])
        user.refresh_from_db()
    assert (cast.nlp_lead.email, cast.bob.email) == (lead, "evil@x.org")


def test_filters_find_by_name_external_id_and_shown_name(scim: ScimCaller) -> None:
    """Against: names with regard to case; external ids without."""
    maria = scim.push(MARIA, externalId="Ab1", displayName="Maria Silva")
    scim.push("bo@example.org", externalId="ab1", displayName="Bo", active=False)

    def found(text: str) -> list[str]:
        body = scim.send("GET", f"Users?filter={text}").json()
        return [each["userName"] for each in body["Resources"]]

    assert found('userName eq "MARIA@EXAMPLE.ORG"') == [MARIA]
    assert found('externalId eq "Ab1"') == [MARIA]
    assert found('displayName eq "maria silva"') == [MARIA]
    assert found(f'id eq "{maria["id"]}"') == [MARIA]
    assert found('id eq "nobody"') == []
    assert found("active eq false") == ["bo@example.org"]
    assert found(f'(userName eq "{MARIA}" or externalId eq "ab1") and active eq true') == [MARIA]
    assert found(f'urn:ietf:params:scim:schemas:core:2.0:User:userName eq "{MARIA}"') == [MARIA]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('userName co "a"', "Filter with eq"),
        ('not (userName eq "a")', "Filter with eq"),
        ("userName pr", "Filter with eq"),
        ('emails[type eq "work"]', "Filter with eq"),
        ('title eq "a"', "title"),
        ("userName eq", "syntax"),
        ("userName eq 3", "userName"),
        ('active eq "maybe"', "active"),
        ("(" * 200 + 'userName eq "a"' + ")" * 200, ""),
        ('userName eq "' + "a" * 1_001 + '"', "at most 1000"),
        ('userName eq "\\ud800"', "half of a surrogate pair"),
    ],
)
def test_a_filter_that_cannot_be_asked_is_refused(
    text: str, sentence: str, scim: ScimCaller
) -> None:
    """Against: a crash, or everybody as the answer to a filter that nobody understood."""
    answer = scim.send("GET", f"Users?filter={text}")
    if answer.status_code != 200 or sentence:
        assert sentence in refused(answer, 400, "invalidFilter")


def test_pages_are_bounded_and_begin_where_asked(
    scim: ScimCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: a page of as many rows as asked for."""
    monkeypatch.setattr("identity.api.scim_views.PAGE_MAX", 2)
    names = [scim.push(f"p{number}@example.org")["userName"] for number in range(5)]

    def page(query: str) -> tuple[int, int, list[str]]:
        body = scim.send("GET", f"Users?{query}").json()
        found = [each["userName"] for each in body["Resources"]]
        assert (body["totalResults"], body["itemsPerPage"]) == (5, len(found))
        return body["startIndex"], len(found), found

    assert page("count=100") == (1, 2, names[:2])
    assert page("startIndex=3&count=2") == (3, 2, names[2:4])
    assert page("startIndex=5") == (5, 1, names[4:])
    assert page("startIndex=-1&count=1") == (1, 1, names[:1])
    assert page("count=0") == (1, 0, [])
    assert page("startIndex=99999999999999999999") == (99999999999999999999, 0, [])
    assert refused(scim.send("GET", "Users?count=many"), 400, "invalidValue")


def test_answers_hold_the_attributes_that_are_asked_for(scim: ScimCaller) -> None:
    """Against: attributes that were excluded."""
    pushed = scim.push(MARIA, displayName="Maria", externalId="00u1")
    path = f"Users/{pushed['id']}"
    assert set(scim.send("GET", f"{path}?attributes=displayName").json()) >= {"id", "displayName"}
    assert "userName" not in scim.send("GET", f"{path}?attributes=displayName").json()
    assert "displayName" not in scim.send("GET", f"{path}?excludedAttributes=displayName").json()


def test_a_change_that_is_based_on_an_old_version_is_refused(scim: ScimCaller) -> None:
    """Against: If-Match that is not read."""
    pushed = scim.push(MARIA)
    path, operation = f"Users/{pushed['id']}", {"op": "add", "path": "displayName", "value": "M"}
    assert pushed["meta"]["version"] == '"v1"'
    assert scim.patch(path, operation, If_Match='"v1"').headers["ETag"] == '"v2"'
    for answer in (
        scim.patch(path, operation, If_Match='"v1"'),
        scim.send("PUT", path, {"schemas": [USER], "userName": "x"}, If_Match='"v1"'),
        scim.send("DELETE", path, If_Match='"v1"'),
    ):
        assert "now version" in refused(answer, 412)
    # A push that changes nothing is no new version.
    assert scim.patch(path, operation, If_Match="*").headers["ETag"] == '"v2"'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"schemas": [USER]}, "invalidValue"),
        ({"schemas": [USER], "userName": ""}, "invalidValue"),
        ({"schemas": [USER], "userName": "u" * 201}, "invalidValue"),
        ({"schemas": [USER], "userName": 3}, "invalidValue"),
        ({"schemas": [USER], "userName": "u", "externalId": "e" * 256}, "invalidValue"),
        ({"schemas": [USER], "userName": "u", "emails": [{"value": "a"}] * 21}, "invalidValue"),
        ({"schemas": [USER], "userName": "u", "emails": "a"}, "invalidValue"),
        ({"schemas": [USER], "userName": "u", "active": "maybe"}, "invalidValue"),
        (b"{", "invalidValue"),
        (b'["list"]', "invalidValue"),
        (b'{"userName": "a\\u0000"}', "invalidValue"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_in_the_form_of_scim(
    body: Any, kind: str, scim: ScimCaller
) -> None:
    """Against: a crash, or a stored value beyond its bound."""
    assert refused(scim.send("POST", "Users", body), 400, kind)
    assert ProvisionedPerson.objects.count() == 0


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        ([], 400),
        ([{"op": "move", "path": "active", "value": True}], 400),
        ([{"op": "remove"}], 400),
        ([{"op": "remove", "path": "userName"}], 400),
        ([{"op": "replace", "path": "id", "value": "x"}], 400),
        ([{"op": "replace", "path": "userName", "value": "u" * 201}], 400),
        ([{"op": "replace", "path": "active", "value": "maybe"}], 400),
        ([{"op": "add", "path": "active", "value": True}] * (OPERATIONS_MAX + 1), 400),
        ([{"op": "replace", "path": "unknown", "value": "x"}], 200),
    ],
)
def test_operations_that_do_not_fit_change_nothing(
    operations: list[dict[str, Any]], status: int, scim: ScimCaller
) -> None:
    """Against: half of a PATCH."""
    pushed = scim.push(MARIA)
    path = f"Users/{pushed['id']}"
    first = {"op": "replace", "path": "displayName", "value": "half"}
    answer = scim.patch(
        path, *([first, *operations] if operations and status != 200 else operations)
    )
    assert answer.status_code == status, answer.content
    assert scim.send("GET", path).json() == pushed


def test_an_organization_has_a_bounded_number_of_people(
    scim: ScimCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: no bound."""
    monkeypatch.setattr(people, "PEOPLE_MAX", 1)
    scim.push(MARIA)
    answer = scim.send("POST", "Users", {"schemas": [USER], "userName": "bo"})
    assert refused(answer, 409) == "There are 1 users already. Delete those who have left."
