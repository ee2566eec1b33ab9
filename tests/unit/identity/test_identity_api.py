"""Setting an identity provider, its mappings, and organizations without passwords."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.cast import Cast, a_cast
from builders.forging_provider import a_forging_provider
from builders.identity_builders import a_group_mapping, a_stranger, an_identity_provider
from builders.portal_builders import NOW, a_grant
from identity.addresses import check_address
from identity.mapping import unmap_group
from identity.models import ExternalIdentity, GroupMapping, IdentityProvider, ScimSettings
from identity.providers import unseal_client_secret
from primitives.errors import Conflict, InvalidRequest
from tenants.access import actor_of
from tenants.models import RoleGrant
from tenants.roles import Role
from tenants.sealing import seal
from tenants.signing_in import set_password_policy

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"
BODY = {
    "name": "Company login",
    "issuer": "http://127.0.0.1:9",
    "client_id": "tidegate",
    "client_secret": "a-secret",
}


@pytest.fixture(autouse=True)
def allowed(settings: Any) -> None:
    """The operator allows the issuer of BODY, and passwords are hashed fast."""
    settings.IDENTITY_ORIGINS = frozenset({"http://127.0.0.1:9"})
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def cast() -> Cast:
    """The people of ai-company and rival-lab."""
    return a_cast()


def address(cast: Cast, end: str = "identity-provider") -> str:
    return f"organizations/{cast.organization.pk}/{end}"


def put(caller: Caller, cast: Cast, *, version: int | None = None, **values: Any) -> Any:
    headers = {} if version is None else {"If_Match": f'"v{version}"'}
    return caller.put(address(cast), {**BODY, **values}, **headers)


def test_a_provider_is_set_and_its_secret_never_shown(cast: Cast) -> None:
    """Against: the secret in the answer, in the audit log, or readable in the table."""
    caller = by_token(cast.alice)
    assert caller.get(address(cast)).status_code == 404
    answer = put(caller, cast)
    assert answer.status_code == 200
    row = IdentityProvider.objects.get()
    assert answer.headers["ETag"] == '"v1"'
    body = answer.json()
    assert body.pop("changed_at")
    assert body == {
        "organization": "ai-company",
        "name": "Company login",
        "issuer": "http://127.0.0.1:9",
        "client_id": "tidegate",
        "scopes": ["openid", "profile", "email"],
        "groups_claim": "",
        "creates_people": False,
        "links_by_email": False,
        "is_enabled": True,
        "is_listed": False,
        "allows_passwords": True,
        "callback_url": "http://testserver/api/v1/session/callback/ai-company",
        "version": 1,
    }
    assert b"a-secret" not in bytes(row.sealed_secret)
    assert unseal_client_secret(row) == "a-secret"
    event = AuditEvent.objects.get(action="identity_provider_set")
    assert event.detail["client_secret_changed"] is True
    assert "a-secret" not in str(event.detail)


def test_a_change_needs_the_version_and_keeps_the_secret(cast: Cast) -> None:
    """Against: a change that empties the secret, and one that overwrites another's."""
    caller = by_token(cast.alice)
    put(caller, cast)
    assert put(caller, cast).status_code == 428
    assert put(caller, cast, version=7).status_code == 412
    changed = put(caller, cast, version=1, client_secret=None, creates_people=True)
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    assert unseal_client_secret(IdentityProvider.objects.get()) == "a-secret"
    event = AuditEvent.objects.filter(action="identity_provider_set").latest("pk")
    assert event.detail == {"creates_people": {"before": False, "after": True}}


def test_a_new_issuer_never_gets_the_secret_of_the_former(cast: Cast) -> None:
    """Against: an administrator's new address that collects the stored secret."""
    caller = by_token(cast.alice)
    put(caller, cast)
    issuer = "http://127.0.0.1:9/other"
    refused = put(caller, cast, version=1, client_secret=None, issuer=issuer)
    assert (refused.status_code, refused.json()["detail"]) == (
        400,
        "client_secret is required with a new issuer.",
    )
    assert refused.json()["errors"][0]["pointer"] == "/client_secret"
    assert put(caller, cast, version=1, client_secret="new", issuer=issuer).status_code == 200


def test_only_those_with_every_right_of_its_administrators_set_it(cast: Cast) -> None:
    """Planted: manage_members alone, with which one could sign in as the administrator."""
    a_grant(cast.dave, Role.DEPARTMENT_ADMIN, cast.organization)
    statuses = {
        user.username: put(by_token(user), cast).status_code
        for user in (cast.dave, cast.research_admin, cast.finance, cast.bob, cast.charlie)
    }
    assert statuses == {
        "dave": 403,
        "research-admin": 403,
        "finance": 403,
        "bob": 403,
        "charlie": 404,
    }
    assert put(by_token(cast.alice, ["read", "jobs"]), cast).status_code == 403
    assert not IdentityProvider.objects.exists()


@pytest.mark.parametrize(
    ("issuer", "sentence"),
    [
        ("http://login.example.org", "must begin with https://"),
        ("https://127.0.0.1", "has an address inside the network"),
        ("https://localhost", "has an address inside the network"),
        ("https://2130706433", "has an address inside the network"),
        ("https://0x7f.1", "has an address inside the network"),
        ("https://10.0.0.7", "has an address inside the network"),
        ("https://169.254.169.254", "has an address inside the network"),
        ("https://100.64.0.1", "has an address inside the network"),
        ("https://[::1]", "has an address inside the network"),
        ("https://[::ffff:127.0.0.1]", "has an address inside the network"),
        ("https://[64:ff9b::7f00:1]", "has an address inside the network"),
        ("https://[2002:7f00:1::]", "has an address inside the network"),
        ("https://192.88.99.1", "has an address inside the network"),
        ("https://240.0.0.1", "has an address inside the network"),
        ("https://224.0.0.1", "has an address inside the network"),
        ("https://user@example.org", "is not an address"),
        ("https://example.org:port", "is not an address"),
        ("file:///etc/passwd", "is not an address"),
    ],
)
def test_the_portal_calls_no_inner_server(cast: Cast, issuer: str, sentence: str) -> None:
    """Planted: `not is_private`, which lets 100.64.0.1 pass. Against: `is_global` for 6to4."""
    answer = put(by_token(cast.alice), cast, issuer=issuer)
    assert answer.status_code == 400
    assert sentence in answer.json()["detail"]
    assert answer.json()["errors"][0]["pointer"] == "/issuer"


def test_a_public_address_and_an_allowed_origin_may_be_called() -> None:
    """Against: a check that refuses everything, and one that takes another port for allowed."""
    check_address("https://8.8.8.8/path")
    check_address("http://127.0.0.1:9/path")
    with pytest.raises(InvalidRequest):
        check_address("http://127.0.0.1:10/path")


def test_a_secret_of_a_lost_key_is_asked_for_again(settings: Any) -> None:
    """Against: an error 500 after a change of the key; a fallback still opens it."""
    row = IdentityProvider(sealed_secret=seal("a-secret"))
    former, settings.SECRET_KEY = settings.SECRET_KEY, "another key of at least 32 characters"
    with pytest.raises(Conflict, match="Enter the client secret again"):
        unseal_client_secret(row)
    settings.SECRET_KEY_FALLBACKS = [former]
    assert unseal_client_secret(row) == "a-secret"


def test_the_test_fetches_the_discovery_document(cast: Cast, settings: Any) -> None:
    """Against: a test that only looks at the address."""
    caller = by_token(cast.alice)
    with a_forging_provider() as provider:
        settings.IDENTITY_ORIGINS = frozenset({provider.issuer})
        an_identity_provider(cast.organization, provider.issuer)
        found = caller.post(address(cast, "identity-provider/test"), None).json()
        assert found == {
            "problems": [],
            "authorization_endpoint": f"{provider.issuer}/authorize",
            "token_endpoint": f"{provider.issuer}/token",
            "userinfo_endpoint": f"{provider.issuer}/userinfo",
        }
        provider.discovery = {"scopes_supported": ["openid", "email", "groups"]}
        found = caller.post(address(cast, "identity-provider/test"), None).json()
        assert found["problems"] == ["The provider does not offer the scope profile."]
        provider.discovery = {"issuer": "https://other.example.org"}
        found = caller.post(address(cast, "identity-provider/test"), None).json()
        assert found["problems"] == [
            f"The provider calls itself 'https://other.example.org', not '{provider.issuer}'. "
            "Enter the issuer exactly as the provider has it."
        ]
    found = caller.post(address(cast, "identity-provider/test"), None).json()
    assert found["problems"] == [
        "The provider cannot be reached. Check its address and the network."
    ]


def test_a_mapping_is_made_listed_and_removed_with_its_grants(cast: Cast) -> None:
    """Planted: an unmapping that leaves the grants. Against: one that takes those by hand."""
    caller = by_token(cast.alice)
    body = {"group": "gpu-nlp", "role": "researcher", "node": "ai-company/research/nlp"}
    made = caller.post(address(cast, "group-mappings"), body, Idempotency_Key="1")
    assert made.status_code == 201
    assert caller.post(address(cast, "group-mappings"), body).status_code == 409
    listed = caller.get(address(cast, "group-mappings")).json()["items"]
    assert [(each["group"], each["role"], each["node"]) for each in listed] == [
        ("gpu-nlp", "researcher", "ai-company/research/nlp")
    ]
    given = RoleGrant.objects.create(
        user=cast.bob, role="researcher", node=cast.nlp, group="gpu-nlp", created_at=NOW
    )
    refused = caller.delete(f"role-grants/{given.pk}")
    assert refused.status_code == 409
    assert refused.json()["detail"] == (
        "This role comes from the group gpu-nlp of the identity provider. Remove the person from "
        "the group there, or remove the mapping of the group."
    )
    assert caller.delete(f"group-mappings/{made.json()['id']}").status_code == 204
    assert [grant.group for grant in RoleGrant.objects.filter(user=cast.bob)] == [""]
    assert not GroupMapping.objects.exists()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"role": "platform_admin"}, 400),
        ({"role": "service_account"}, 400),
        ({"node": "rival-lab"}, 404),
        ({"group": " "}, 400),
        ({"group": "a\u202eb"}, 400),
        ({"group": "x" * 201}, 400),
    ],
)
def test_a_mapping_that_gives_too_much_is_refused(
    cast: Cast, change: dict[str, str], status: int
) -> None:
    """Against: a group that makes platform administrators, or reaches another organization."""
    body = {"group": "g", "role": "researcher", "node": "ai-company/research/nlp", **change}
    answer = by_token(cast.alice).post(address(cast, "group-mappings"), body)
    assert answer.status_code == status
    root = by_token(cast.root).post(
        address(cast, "group-mappings"), {**body, "node": "rival-lab", "role": "researcher"}
    )
    assert root.status_code == 400
    assert not GroupMapping.objects.exists()


def test_an_unmapping_waits_for_a_sign_in(cast: Cast) -> None:
    """Against: a grant that a sign-in gives after the mapping has gone."""
    provider = an_identity_provider(cast.organization)
    mapping = a_group_mapping(cast.nlp, "gpu-nlp")
    with CaptureQueriesContext(connection) as queries:
        unmap_group(actor=actor_of(cast.alice), mapping_id=mapping.pk, now=NOW)
    locks = [query["sql"] for query in queries if "FOR UPDATE" in query["sql"]]
    for lock, model in zip(locks, (ScimSettings, IdentityProvider), strict=False):
        assert f'FROM "{model._meta.db_table}"' in lock
        assert provider.organization_id.hex in lock


def test_strangers_neither_see_nor_remove_mappings(cast: Cast) -> None:
    """Against: a mapping that its id alone removes."""
    mapping = a_group_mapping(cast.nlp, "gpu-nlp")
    assert by_token(cast.charlie).delete(f"group-mappings/{mapping.pk}").status_code == 404
    assert by_token(cast.nlp_lead).delete(f"group-mappings/{mapping.pk}").status_code == 403
    assert GroupMapping.objects.count() == 1


def test_passwords_go_off_only_when_an_administrator_has_another_way_in(cast: Cast) -> None:
    """Planted: any linked person, such as a researcher, counted as the way in."""
    caller = by_token(cast.alice)
    row = an_identity_provider(cast.organization, "http://127.0.0.1:9")
    refused = put(caller, cast, version=1, allows_passwords=False)
    assert refused.status_code == 409
    linked = ExternalIdentity.objects.create(
        provider=row,
        issuer=row.issuer,
        subject="1",
        user=cast.bob,
        created_at=NOW,
        used_at=NOW,
    )
    assert put(caller, cast, version=1, allows_passwords=False).status_code == 409
    linked.user = cast.alice
    linked.save()
    off = {"version": 1, "allows_passwords": False}
    assert put(caller, cast, **off, is_enabled=False).status_code == 409
    assert put(caller, cast, **off, issuer="http://127.0.0.1:9/other").status_code == 409
    answer = put(caller, cast, **off)
    assert (answer.status_code, answer.json()["allows_passwords"]) == (200, False)
    # And it cannot be switched off, or point elsewhere, while nothing else lets people in.
    assert put(caller, cast, version=2, allows_passwords=False, is_enabled=False).status_code == 409


def test_without_passwords_only_platform_administrators_sign_in_with_one(cast: Cast) -> None:
    """Against: the check before the password, which tells a stranger about accounts."""
    for user in (cast.root, cast.alice, cast.charlie):
        user.set_password(PASSWORD)
        user.save()
    set_password_policy(cast.organization, allows_passwords=False)

    def answer(login: str, password: str = PASSWORD) -> tuple[int, str]:
        found = a_stranger().post("session", {"login": login, "password": password})
        return found.status_code, found.json().get("detail", "")

    assert answer("alice@ai-company") == (
        401,
        "Your organization has switched passwords off. Sign in with its identity provider.",
    )
    wrong = "Login or password is wrong, or the account cannot sign in."
    assert answer("alice@ai-company", "wrong") == (401, wrong)
    assert answer("root")[0] == 200
    assert answer("charlie@rival-lab")[0] == 200
    link = by_token(cast.alice).post(f"users/{cast.bob.pk}/password-link", None)
    assert link.status_code == 409


def test_the_database_keeps_the_rules_of_identity(cast: Cast) -> None:
    """Against: each constraint, left out."""
    row = an_identity_provider(cast.organization)

    def refused(constraint: str, act: Any) -> None:
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            act()

    def update(**values: Any) -> Any:
        return lambda: IdentityProvider.objects.filter(pk=row.pk).update(**values)

    def an_identity(subject: str, user: Any) -> Any:
        return lambda: ExternalIdentity.objects.create(
            provider=row,
            issuer=row.issuer,
            subject=subject,
            user=user,
            created_at=NOW,
            used_at=NOW,
        )

    refused("identity_issuer_is_a_web_address", update(issuer="ftp://example.org"))
    refused("identity_scopes_have_openid", update(scopes=["email"]))
    an_identity("1", cast.bob)()
    refused("identity_subject_is_one_person", an_identity("1", cast.alice))
    refused("identity_person_has_one_subject", an_identity("2", cast.bob))
    a_group_mapping(cast.nlp, "g")
    refused("identity_group_mapped_once", lambda: a_group_mapping(cast.nlp, "g"))
    refused("identity_group_has_a_name", lambda: a_group_mapping(cast.nlp, ""))
    refused(
        "identity_group_gives_no_platform_role",
        lambda: a_group_mapping(cast.nlp, "g", Role.PLATFORM_ADMIN),
    )
    refused(
        "role_of_a_group_is_no_platform_admin",
        lambda: RoleGrant.objects.create(
            user=cast.root, role="platform_admin", node=None, group="g", created_at=NOW
        ),
    )
