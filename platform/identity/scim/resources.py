"""Users and groups in the form of SCIM: the attributes that the portal stores, and their bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field
from scim2_models import (
    URN,
    CaseExact,
    ComplexAttribute,
    Meta,
    Mutability,
    Reference,
    Required,
    Resource,
    ResourceType,
    Schema,
    ScimPolicy,
    ServiceProviderConfig,
    Uniqueness,
)
from scim2_models.resources.service_provider_config import (
    AuthenticationScheme,
    Bulk,
    ChangePassword,
    ETag,
    Filter,
    Patch,
    Sort,
)

from identity.models import (
    GROUP_LENGTH_MAX,
    SUBJECT_LENGTH_MAX,
    ProvisionedGroup,
    ProvisionedPerson,
)
from webapi.preconditions import etag_of

#: Rows of one page.
PAGE_MAX = 200
EMAILS_MAX = 20
_NAME_LENGTH_MAX = 200
_EMAIL_LENGTH_MAX = 254
_USER = URN("urn:ietf:params:scim:schemas:core:2.0:User")
_GROUP = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

#: Entra ID sends attributes that no schema here has, the value of a removal beside its path, and
#: paths such as `emails[type eq "work"].value` before there is such an address.
POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)

_Name = Annotated[str | None, Field(max_length=_NAME_LENGTH_MAX)]


class PersonName(ComplexAttribute):
    """The parts of a person's name."""

    formatted: _Name = None
    family_name: _Name = None
    given_name: _Name = None


class PersonEmail(ComplexAttribute):
    """An email address of a person."""

    value: Annotated[str | None, Field(max_length=_EMAIL_LENGTH_MAX)] = None
    type: Annotated[str | None, Field(max_length=40, examples=["work", "home", "other"])] = None
    primary: bool | None = None


class User(Resource[Any]):
    """A person of the organization."""

    __schema__ = _USER

    external_id: Annotated[str | None, CaseExact.true, Field(max_length=SUBJECT_LENGTH_MAX)] = None
    user_name: Annotated[
        str | None,
        Uniqueness.server,
        Required.true,
        Field(min_length=1, max_length=_NAME_LENGTH_MAX),
    ] = None
    name: PersonName | None = None
    display_name: _Name = None
    active: bool | None = None
    emails: Annotated[list[PersonEmail] | None, Field(max_length=EMAILS_MAX)] = None

    def shown_name(self) -> str:
        """Return the name for people to read; empty: none was pushed."""
        name = self.name or PersonName()
        parts = " ".join(filter(None, (name.given_name, name.family_name)))
        return self.display_name or name.formatted or parts

    def email(self) -> str:
        """Return the primary email address, or the first one; empty: none was pushed."""
        emails = sorted(self.emails or [], key=lambda email: not email.primary)
        return next((email.value for email in emails if email.value), "")


class ScimMember(ComplexAttribute):
    """A member of a group."""

    value: Annotated[str | None, Mutability.immutable] = None
    ref: Annotated[Reference[User] | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    type: Annotated[str | None, Mutability.immutable, Field(examples=["User"])] = None


class Group(Resource[Any]):
    """A group of people."""

    __schema__ = _GROUP

    external_id: Annotated[str | None, CaseExact.true, Field(max_length=SUBJECT_LENGTH_MAX)] = None
    display_name: Annotated[
        str | None, Required.true, Field(min_length=1, max_length=GROUP_LENGTH_MAX)
    ] = None
    members: list[ScimMember] | None = None


def person_resource(person: ProvisionedPerson, base: str) -> User:
    """Return the person as SCIM has it. `base` is the address of SCIM of this portal."""
    attributes = dict(person.attributes)
    if "active" in attributes:
        # An administrator may have deactivated the account here.
        attributes["active"] = person.user.is_active
    return User.model_validate(
        {
            **attributes,
            "schemas": [_USER],
            "id": str(person.pk),
            "externalId": person.external_id or None,
            "userName": person.user_name,
            "meta": _meta(person, "User", f"{base}/Users/{person.pk}"),
        }
    )


def group_resource(group: ProvisionedGroup, members: Iterable[UUID], base: str) -> Group:
    """Return the group as SCIM has it, with these members."""
    return Group.model_validate(
        {
            "schemas": [_GROUP],
            "id": str(group.pk),
            "externalId": group.external_id or None,
            "displayName": group.display_name,
            "members": [
                {"value": str(pk), "$ref": f"{base}/Users/{pk}", "type": "User"} for pk in members
            ],
            "meta": _meta(group, "Group", f"{base}/Groups/{group.pk}"),
        }
    )


def _meta(row: ProvisionedPerson | ProvisionedGroup, kind: str, location: str) -> Meta:
    return Meta(
        resource_type=kind,
        created=row.created_at,
        last_modified=row.changed_at,
        location=location,
        version=etag_of(row.version),
    )


def schemas(base: str) -> list[Schema]:
    """Return the schemas of users and groups, with the attributes that are stored."""
    found = []
    for model in (User, Group):
        schema = model.to_schema()
        schema.meta = Meta(resource_type="Schema", location=f"{base}/Schemas/{schema.id}")
        found.append(schema)
    return found


def resource_types(base: str) -> list[ResourceType]:
    """Return the types of resources: users and groups."""
    found = []
    for model in (User, Group):
        kind = ResourceType.from_resource(model)
        kind.meta = Meta(resource_type="ResourceType", location=f"{base}/ResourceTypes/{kind.id}")
        found.append(kind)
    return found


def service_provider_config(base: str) -> ServiceProviderConfig:
    """Return the abilities of this portal."""
    return ServiceProviderConfig(
        documentation_uri=None,
        patch=Patch(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=PAGE_MAX),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=False),
        etag=ETag(supported=True),
        authentication_schemes=[
            AuthenticationScheme(
                type=AuthenticationScheme.Type.oauthbearertoken,
                name="Token for SCIM",
                description="Authorization: Bearer tds_..., created on the page Sign-in",
                primary=True,
            )
        ],
        meta=Meta(resource_type="ServiceProviderConfig", location=f"{base}/ServiceProviderConfig"),
    )
