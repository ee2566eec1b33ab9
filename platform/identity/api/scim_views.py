"""SCIM 2.0 over HTTP (RFC 7644): `/scim/v2`, for the organization of the token."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response
from scim2_models import (
    Context,
    ListResponse,
    NotImplementedException,
    PatchOp,
    Resource,
    ResponseParameters,
    SearchRequest,
)

from identity.api.scim_protocol import ScimView, scim_address, token_of
from identity.models import ProvisionedGroup, ProvisionedPerson
from identity.scim import groups, people
from identity.scim.filters import GROUP_LOOKUPS, USER_LOOKUPS, condition_of
from identity.scim.resources import (
    PAGE_MAX,
    POLICY,
    Group,
    User,
    group_resource,
    person_resource,
    resource_types,
    schemas,
    service_provider_config,
)
from primitives.clock import SystemClock
from primitives.errors import NotFound
from webapi.preconditions import etag_of

#: Members in one page of groups. A page with more groups ends earlier.
_MEMBERS_PER_PAGE = 20_000
#: Parameters of lists that count here. Others, such as sortBy, are ignored as the protocol says.
_LIST_PARAMETERS = ("filter", "startIndex", "count", "attributes", "excludedAttributes")

Described = TypeVar("Described", bound=Resource[Any])


class ServiceProviderConfigView(ScimView):
    """The abilities of this portal."""

    def get(self, request: Request) -> Response:
        """Get them."""
        return _shown(service_provider_config(scim_address(request)))


class Schemas(ScimView):
    """The schemas of users and groups."""

    def get(self, request: Request) -> Response:
        """List them."""
        return _described(schemas(scim_address(request)))


class SchemaDetail(ScimView):
    """A schema."""

    def get(self, request: Request, schema_id: str) -> Response:
        """Get it."""
        return _one_of(schemas(scim_address(request)), schema_id)


class ResourceTypes(ScimView):
    """The types of resources."""

    def get(self, request: Request) -> Response:
        """List them."""
        return _described(resource_types(scim_address(request)))


class ResourceTypeDetail(ScimView):
    """A type of resources."""

    def get(self, request: Request, type_id: str) -> Response:
        """Get it."""
        return _one_of(resource_types(scim_address(request)), type_id)


class Users(ScimView):
    """The pushed people of the organization."""

    def get(self, request: Request) -> Response:
        """List people, oldest first."""
        asked = _list_asked(request, User)
        rows = people.people_of(token_of(request)).order_by("pk")
        if asked.filter is not None:
            rows = rows.filter(condition_of(asked.filter, USER_LOOKUPS))
        start, count = _page(asked)
        base = scim_address(request)
        found = [person_resource(row, base) for row in rows[start : start + count]]
        return _listed(found, asked, total=rows.count())

    def post(self, request: Request) -> Response:
        """Create a person."""
        pushed = _pushed(request, User, Context.RESOURCE_CREATION_REQUEST)
        person = people.create_person(token_of(request), pushed, now=SystemClock().now())
        return _person(request, person, status=201)


class UserDetail(ScimView):
    """A pushed person."""

    def get(self, request: Request, person_id: UUID) -> Response:
        """Get the person."""
        return _person(request, people.person_of(token_of(request), person_id))

    def put(self, request: Request, person_id: UUID) -> Response:
        """Replace the person's attributes."""
        person = people.replace_person(
            token_of(request),
            person_id,
            _pushed(request, User, Context.RESOURCE_REPLACEMENT_REQUEST),
            etag=request.headers.get("If-Match"),
            now=SystemClock().now(),
        )
        return _person(request, person)

    def patch(self, request: Request, person_id: UUID) -> Response:
        """Change some of the person's attributes."""
        person = people.patch_person(
            token_of(request),
            person_id,
            PatchOp[User].model_validate(
                request.data, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY
            ),
            etag=request.headers.get("If-Match"),
            now=SystemClock().now(),
        )
        return _person(request, person)

    def delete(self, request: Request, person_id: UUID) -> Response:
        """Deactivate the person's account, and forget the person."""
        people.delete_person(
            token_of(request),
            person_id,
            etag=request.headers.get("If-Match"),
            now=SystemClock().now(),
        )
        return Response(status=204)


class Groups(ScimView):
    """The pushed groups of the organization."""

    def get(self, request: Request) -> Response:
        """List groups, oldest first."""
        asked = _list_asked(request, Group)
        rows = groups.groups_of(token_of(request)).order_by("pk")
        if asked.filter is not None:
            rows = rows.filter(condition_of(asked.filter, GROUP_LOOKUPS))
        start, count = _page(asked)
        base, members = scim_address(request), 0
        found: list[Group] = []
        for row in rows[start : start + count]:
            ids = groups.members_of(row) if _shows_members(asked) else []
            members += len(ids)
            if found and members > _MEMBERS_PER_PAGE:
                break
            found.append(group_resource(row, ids, base))
        return _listed(found, asked, total=rows.count())

    def post(self, request: Request) -> Response:
        """Create a group."""
        pushed = _pushed(request, Group, Context.RESOURCE_CREATION_REQUEST)
        group = groups.create_group(token_of(request), pushed, now=SystemClock().now())
        return _group(request, group, status=201)


class GroupDetail(ScimView):
    """A pushed group."""

    def get(self, request: Request, group_id: UUID) -> Response:
        """Get the group."""
        return _group(request, groups.group_of(token_of(request), group_id))

    def put(self, request: Request, group_id: UUID) -> Response:
        """Replace the group's name and members."""
        group = groups.replace_group(
            token_of(request),
            group_id,
            _pushed(request, Group, Context.RESOURCE_REPLACEMENT_REQUEST),
            etag=request.headers.get("If-Match"),
            now=SystemClock().now(),
        )
        return _group(request, group)

    def patch(self, request: Request, group_id: UUID) -> Response:
        """Change the group's name or members. The answer has no body, as identity providers want.

        With the parameter `attributes`, it has those.
        """
        group = groups.patch_group(
            token_of(request),
            group_id,
            PatchOp[Group].model_validate(
                request.data, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY
            ),
            etag=request.headers.get("If-Match"),
            now=SystemClock().now(),
        )
        if "attributes" in request.query_params:
            return _group(request, group)
        return Response(status=204, headers={"ETag": etag_of(group.version)})

    def delete(self, request: Request, group_id: UUID) -> Response:
        """Delete the group."""
        groups.delete_group(
            token_of(request),
            group_id,
            etag=request.headers.get("If-Match"),
            now=SystemClock().now(),
        )
        return Response(status=204)


class NotOffered(ScimView):
    """An operation of SCIM that this portal does not have: /Bulk, /Me and /.search."""

    def get(self, request: Request) -> Response:
        """Refuse it."""
        raise NotImplementedException(
            detail="This portal has no /Bulk, /Me and /.search. Use /Users and /Groups."
        )

    post = get


class UnknownAddress(ScimView):
    """An address below /scim/v2 that nothing serves."""

    def get(self, request: Request, path: str) -> Response:
        """Refuse it."""
        raise NotFound(
            "SCIM has /Users, /Groups, /ServiceProviderConfig, /ResourceTypes, /Schemas."
        )

    post = put = patch = delete = get


def _pushed(request: Request, model: type[Described], context: Context) -> Described:
    return model.model_validate(request.data, scim_ctx=context, scim_policy=POLICY)


def _list_asked(request: Request, model: type[Resource[Any]]) -> SearchRequest[Any]:
    given = {
        name: request.query_params[name]
        for name in _LIST_PARAMETERS
        if name in request.query_params
    }
    return SearchRequest[model].model_validate(given, scim_policy=POLICY)  # type: ignore[valid-type]


def _page(asked: SearchRequest[Any]) -> tuple[int, int]:
    """Return the index of the first row, from 0, and the number of rows."""
    count = PAGE_MAX if asked.count is None else min(asked.count, PAGE_MAX)
    return min((asked.start_index or 1) - 1, groups.MEMBERS_MAX * PAGE_MAX), count


def _listed(found: list[Any], asked: SearchRequest[Any], *, total: int) -> Response:
    body = {
        "schemas": [ListResponse.__schema__],
        "totalResults": total,
        "startIndex": asked.start_index or 1,
        "itemsPerPage": len(found),
        "Resources": [
            each.model_dump(
                scim_ctx=Context.RESOURCE_QUERY_RESPONSE,
                response_parameters=asked,
                scim_policy=POLICY,
            )
            for each in found
        ],
    }
    return Response(body)


def _described(found: list[Any]) -> Response:
    return _listed(found, SearchRequest(), total=len(found))


def _one_of(found: list[Any], wanted: str) -> Response:
    for each in found:
        if str(each.id).lower() == wanted.lower():
            return _shown(each)
    raise NotFound(f"There is no {wanted[:100]}. There are: {', '.join(str(x.id) for x in found)}.")


def _person(request: Request, person: ProvisionedPerson, *, status: int = 200) -> Response:
    resource = person_resource(person, scim_address(request))
    return _tagged(request, resource, person.version, status)


def _group(request: Request, group: ProvisionedGroup, *, status: int = 200) -> Response:
    asked = _response_asked(request, Group)
    members = groups.members_of(group) if _shows_members(asked) else []
    resource = group_resource(group, members, scim_address(request))
    return _tagged(request, resource, group.version, status)


def _tagged(request: Request, resource: Resource[Any], version: int, status: int) -> Response:
    response = _shown(resource, _response_asked(request, type(resource)))
    response.status_code = status
    response.headers["ETag"] = etag_of(version)
    if status == 201 and resource.meta is not None:
        response.headers["Location"] = str(resource.meta.location)
    return response


def _shown(resource: Resource[Any], asked: ResponseParameters[Any] | None = None) -> Response:
    return Response(
        resource.model_dump(
            scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=asked, scim_policy=POLICY
        )
    )


def _response_asked(request: Request, model: type[Resource[Any]]) -> ResponseParameters[Any]:
    given = {
        name: request.query_params[name]
        for name in ("attributes", "excludedAttributes")
        if name in request.query_params
    }
    return ResponseParameters[model].model_validate(given, scim_policy=POLICY)  # type: ignore[valid-type]


def _shows_members(asked: ResponseParameters[Any]) -> bool:
    if asked.attributes:
        return any(str(path).lower().endswith("members") for path in asked.attributes)
    return not any(
        str(path).lower().endswith("members") for path in asked.excluded_attributes or []
    )
