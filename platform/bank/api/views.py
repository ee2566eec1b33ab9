"""Credits of teams, and the switch of the credit bank."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from bank.api.serializers import (
    CreditBankSerializer,
    CreditBankUpdateSerializer,
    CreditHistorySerializer,
    PoolCreditsSerializer,
    StatementSerializer,
)
from bank.csv_export import csv_lines, file_name
from bank.history import history_of
from bank.settling import zone_of
from bank.statements import credits_in, statement_of
from bank.switching import bank_of, change_bank
from primitives.clock import SystemClock
from primitives.days import month_named
from primitives.errors import FieldError, InvalidRequest
from quotas.administration import named_pool
from tenants.access import Actor, visible_node
from tenants.api.authentication import actor_from
from tenants.models import Node, NodeKind
from webapi.formats import CsvRenderer, NamedFormats
from webapi.paging import refuse_unknown_parameters
from webapi.parameters import Parameters, choice, text
from webapi.preconditions import etag_of, required_version, showing_current
from webapi.serializers import answers, etag_header, if_match_header

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class CreditsParameters(Parameters):
    """The organization and the pool."""

    organization: str = text("Slug of the organization", required="give its slug")
    pool: str = text("Name of the pool", required="give the name of a pool")


class HistoryParameters(Parameters):
    """The team, the pool and the month."""

    team: str = text("Path of the team", required="give the path of a team")
    pool: str = text("Name of the pool", required="give the name of a pool")
    month: str | None = text("Month such as 2026-11. Default: the present one", most=7)


class StatementParameters(HistoryParameters):
    """The team, the pool, the month and the format."""

    format: str = choice(("json", "csv"), default="json")


class CreditsDetail(APIView):
    """The credits of an organization in a pool."""

    @extend_schema(
        operation_id="get_credits",
        summary="Get the credits of an organization in a pool",
        description="Teams come in their order for spare GPUs.",
        parameters=CreditsParameters.in_openapi(),
        responses=answers({200: PoolCreditsSerializer}, 404),
    )
    def get(self, request: Request) -> Response:
        """Get the credits."""
        asked = CreditsParameters.read(request)
        node = visible_node(actor_from(request), asked.organization)
        if node.kind != NodeKind.ORGANIZATION:
            raise InvalidRequest(
                f"{node.display_path} is no organization. Give the slug of one.",
                errors=[FieldError("/organization", "is no organization")],
            )
        found = credits_in(node, named_pool(asked.pool))
        return Response(PoolCreditsSerializer(found).data)


class CreditStatement(APIView):
    """A team's statement of a month."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="get_credit_statement",
        summary="Get a team's credits of a month, line by line",
        parameters=StatementParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): StatementSerializer,  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            404,
        ),
    )
    def get(self, request: Request) -> Response:
        """Get the statement."""
        asked = StatementParameters.read(request)
        actor = actor_from(request)
        team = _team_of(asked, actor)
        year, month = _month_of(asked, team, SystemClock().now())
        statement = statement_of(team, named_pool(asked.pool), year, month, actor=actor)
        if request.accepted_renderer.format == "csv":
            name = file_name(statement)
            return Response(
                "".join(csv_lines(statement)),
                headers={"Content-Disposition": f'attachment; filename="{name}"'},
            )
        return Response(StatementSerializer(statement).data)


class CreditHistory(APIView):
    """A team's balance by day."""

    @extend_schema(
        operation_id="get_credit_history",
        summary="Get a team's balance by day of a month, with a forecast",
        description="The forecast takes the run rates of 7 and 28 days and the same weekdays of "
        "one and two weeks before. Dividends and transfers of people are not foreseen.",
        parameters=HistoryParameters.in_openapi(),
        responses=answers({200: CreditHistorySerializer}, 404),
    )
    def get(self, request: Request) -> Response:
        """Get the history."""
        asked = HistoryParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        team = _team_of(asked, actor)
        year, month = _month_of(asked, team, now)
        history = history_of(team, named_pool(asked.pool), year, month, actor=actor, now=now)
        return Response(CreditHistorySerializer(history).data)


def _team_of(asked: HistoryParameters, actor: Actor) -> Node:
    team = visible_node(actor, asked.team)
    if team.kind != NodeKind.TEAM:
        raise InvalidRequest(
            f"{team.display_path} is no team, and only teams have credits.",
            errors=[FieldError("/team", "is no team")],
        )
    return team


def _month_of(asked: HistoryParameters, team: Node, now: datetime) -> tuple[int, int]:
    """Return year and month; without a month, the present ones of the organization."""
    if asked.month is None:
        today = now.astimezone(zone_of(team.organization_id))
        return today.year, today.month
    first = month_named(asked.month)
    if first is None:
        raise InvalidRequest(
            f"month must be a month such as 2026-11, not {asked.month!r}.",
            errors=[FieldError("/month", "is not a month")],
        )
    return first.year, first.month


class CreditBankDetail(APIView):
    """The credit bank of one organization."""

    @extend_schema(
        operation_id="get_credit_bank",
        summary="Get an organization's credit bank",
        parameters=[_ETAG],
        responses=answers({200: CreditBankSerializer}, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """Get the settings."""
        refuse_unknown_parameters(request, set())
        bank = bank_of(actor_from(request), organization_id)
        return Response(CreditBankSerializer(bank).data, headers={"ETag": etag_of(bank.version)})

    @extend_schema(
        operation_id="change_credit_bank",
        summary="Change an organization's credit bank",
        description="Switching it on posts nothing for the time before. A 409 says that "
        "the use before the last switch is still being settled.",
        request=CreditBankUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: CreditBankSerializer}, 403, 404, 409, 412, 428),
    )
    def patch(self, request: Request, organization_id: UUID) -> Response:
        """Change the settings. A 412 has the `current` ones."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = CreditBankUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: CreditBankSerializer(bank_of(actor, organization_id)).data):
            bank = change_bank(
                organization_id,
                body.validated_data,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return Response(CreditBankSerializer(bank).data, headers={"ETag": etag_of(bank.version)})
