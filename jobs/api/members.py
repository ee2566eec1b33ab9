"""Members of a node over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.reading.member_csv import MEMBERS_MAX, csv_lines
from jobs.reading.members import Member, NodeMembers, Source
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from tenants.api.role_views import RoleGrantSerializer
from tenants.api.serializers import AccessTokenSerializer, UserSerializer
from tenants.granting import may_hand_out
from tenants.roles import Role
from webapi.formats import CsvRenderer, NamedFormats
from webapi.paging import Page, page_body, page_by_text, refuse_unknown_parameters
from webapi.parameters import PageParameters, Parameters, choice
from webapi.serializers import DEVICE_HELP, DEVICES, answers, page_of


class MemberFormat(Parameters):
    """The format of the list."""

    format: str = choice(("json", "csv"), default="json")


class MemberParameters(MemberFormat, PageParameters):
    """The same for pages of JSON. CSV has no pages."""


class MemberRoleSerializer(RoleGrantSerializer):
    """A role of a member, at, above or below the node."""

    node_id = serializers.UUIDField()
    may_change = serializers.SerializerMethodField(
        help_text="Whether the caller may change and revoke it"
    )

    def get_may_change(self, grant: Any) -> bool:
        """Return whether the caller may change and revoke it."""
        return may_hand_out(self.context["actor"], Role(grant.role), grant.node.path)


class MemberUseSerializer(serializers.Serializer[Any]):
    """GPUs of one pool that a member uses now at or below the node."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    guaranteed_mgpu = serializers.IntegerField()
    borrowed_mgpu = serializers.IntegerField(help_text="The part that may be reclaimed")
    cap_mgpu = serializers.IntegerField(
        allow_null=True, help_text="The most that the member may use at once; null: no cap"
    )


class MemberSerializer(serializers.Serializer[Any]):
    """A person or service account with a role at, above or below the node, or with use there."""

    user = UserSerializer()
    # In the stubs, `source` is the name of an attribute. Here it is a member of the document.
    source = serializers.ChoiceField(  # type: ignore[assignment]
        choices=[each.value for each in Source],
        help_text="Place of the nearest role as seen from the node; `none`: use without a role",
    )
    roles = MemberRoleSerializer(many=True)
    use = MemberUseSerializer(many=True, source="uses", help_text="By pool; caps without use, too")
    month_mgpu_s = serializers.IntegerField(help_text="GPU time of this month at or below the node")
    last_active_at = serializers.DateTimeField(
        allow_null=True, help_text="The last sign-in or use of a token; null: never"
    )
    tokens = AccessTokenSerializer(
        many=True, help_text="Live tokens of a service account that the caller manages"
    )


class PoolTotalSerializer(serializers.Serializer[Any]):
    """GPUs of one pool in use by all members, and by the node."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    people_mgpu = serializers.IntegerField()
    service_accounts_mgpu = serializers.IntegerField()
    node_mgpu = serializers.IntegerField(help_text="Use of the node after the last cycle")


class MemberTotalsSerializer(serializers.Serializer[Any]):
    """Sums over all members, and the use of the node, which they must equal."""

    month_start = serializers.DateTimeField()
    pools = PoolTotalSerializer(many=True)
    people_month_mgpu_s = serializers.IntegerField()
    service_accounts_month_mgpu_s = serializers.IntegerField()
    node_month_mgpu_s = serializers.IntegerField(help_text="GPU time of the chargeback report")
    is_equal = serializers.BooleanField(help_text="Whether the sums are the use of the node")


class MemberList(APIView):
    """The members of a node."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="list_members",
        summary="List the members of a node, by login",
        description="People and service accounts with a role at, above or below the node, and "
        "those with use there. It needs manage_members or view_audit on the node. "
        f"CSV has all members, at most {MEMBERS_MAX:,}.",
        parameters=MemberParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): page_of(MemberSerializer),  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            403,
            404,
        ),
    )
    def get(self, request: Request, tree_node_id: UUID) -> Response:
        """List members, by login."""
        is_csv = request.accepted_renderer.format == "csv"
        paged = None if is_csv else MemberParameters.read(request)
        if paged is None:
            MemberFormat.read(request)
        actor, now = actor_from(request), SystemClock().now()
        members = NodeMembers(actor, tree_node_id, now)
        if paged is None:
            name = f"members-{members.node.slug}-{now:%Y%m%d-%H%M%S}.csv"
            return Response(
                "".join(csv_lines(members)),
                headers={"Content-Disposition": f'attachment; filename="{name}"'},
            )
        page = page_by_text(paged, members.users(), "login")
        described: Page[Member] = Page(members.described(page.items), page.next_cursor)
        context = {"actor": actor}
        return Response(
            page_body(request, described, MemberSerializer(context=context).to_representation)
        )


class MemberTotals(APIView):
    """The sums over the members of a node."""

    @extend_schema(
        operation_id="get_member_totals",
        summary="Sum the use of all members of a node, beside the use of the node",
        responses=answers({200: MemberTotalsSerializer}, 403, 404),
    )
    def get(self, request: Request, tree_node_id: UUID) -> Response:
        """Get the sums."""
        refuse_unknown_parameters(request, set())
        members = NodeMembers(actor_from(request), tree_node_id, SystemClock().now())
        return Response(MemberTotalsSerializer(members.totals()).data)
