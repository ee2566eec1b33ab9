"""Histories of nodes: use, waits and preemptions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chargeback.reports import Asked
from history.api.serializers import (
    PreemptionHistorySerializer,
    UseHistorySerializer,
    WaitHistorySerializer,
    WeekSerializer,
    history_body,
    preemptions_body,
    waits_body,
    week_body,
)
from history.csv_export import (
    csv_lines,
    file_name,
    pair_lines,
    preemption_lines,
    wait_lines,
    week_lines,
)
from history.preemptions import preemptions_of
from history.scope import Scope
from history.steps import Step
from history.use import history_of
from history.waits import waits_of
from history.week import week_of
from primitives.clock import SystemClock
from quotas.administration import named_pool
from tenants.api.authentication import actor_from
from webapi.formats import CsvRenderer, NamedFormats
from webapi.parameters import Parameters, choice, day, day_or_time, text
from webapi.serializers import answers


class HistoryParameters(Parameters):
    """The node, the pool and the period of a history."""

    node: str = text("Path of the node", required="give the path of a node")
    pool: str = text("Name of the pool", required="give the name of a pool")
    start: date | datetime | None = day_or_time(
        "2026-11-01, its midnight in the organization's time zone, or a time with an offset. "
        "Default: 7 days ago"
    )
    end: date | datetime | None = day_or_time("End, excluded; at most 400 days after start")

    def asked(self, request: Request) -> dict[str, Any]:
        """Return the arguments of all histories."""
        return {
            "path": self.node,
            "pool": named_pool(self.pool),
            "actor": actor_from(request),
            "asked": Asked(self.start, self.end),
            "now": SystemClock().now(),
        }


class FormattedParameters(HistoryParameters):
    """The node, the pool, the period and the format of a history."""

    format: str = choice(("json", "csv"), default="json")


#: The lines of each CSV of a history of use.
_TABLES = {"steps": csv_lines, "pairs": pair_lines, "week": week_lines}


class UseHistoryParameters(FormattedParameters):
    """The parameters of a history of use."""

    step: str | None = choice(
        Step, "Length of a step. Default: 5m up to two days, hour up to 45 days, else day"
    )
    table: str = choice(
        _TABLES,
        "The table of a CSV: steps, who borrowed from whom, or week by hour",
        default="steps",
    )


def _csv(lines: Iterable[str], scope: Scope, kind: str) -> Response:
    name = file_name(scope, kind)
    return Response(
        "".join(lines), headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


class UseHistory(APIView):
    """The use of a node over time."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="get_use_history",
        summary="Get use, guarantee, lent and waiting GPUs of a node over time",
        description="All numbers are integrals of GPUs over seconds, and exact. The use of each "
        "class equals that of the chargeback report of the same period. Jobs in the queue count "
        "as waiting from their submission or begin time until each start; jobs on hold do not.",
        parameters=UseHistoryParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): UseHistorySerializer,  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            404,
        ),
    )
    def get(self, request: Request) -> Response:
        """Get the history."""
        given = UseHistoryParameters.read(request)
        step = None if given.step is None else Step(given.step)
        history = history_of(**given.asked(request), step=step)
        if request.accepted_renderer.format == "csv":
            kind = "history" if given.table == "steps" else given.table
            return _csv(_TABLES[given.table](history), history.scope, kind)
        return Response(UseHistorySerializer(history_body(history)).data)


class WaitHistory(APIView):
    """The waits before the starts of a node's jobs."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="get_wait_history",
        summary="Get how long the jobs of a node waited before their first start",
        description="Each job counts once, by its first start in the period.",
        parameters=FormattedParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): WaitHistorySerializer,  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            404,
        ),
    )
    def get(self, request: Request) -> Response:
        """Get the waits."""
        found = waits_of(**FormattedParameters.read(request).asked(request))
        if request.accepted_renderer.format == "csv":
            return _csv(wait_lines(found), found.scope, "waits")
        return Response(WaitHistorySerializer(waits_body(found)).data)


class PreemptionHistory(APIView):
    """The preemptions of a node's jobs, and for them."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="get_preemption_history",
        summary="Get the preemptions of a node's jobs and for them, with the work that they cost",
        description="A preemption counts at the time of its notice.",
        parameters=FormattedParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): PreemptionHistorySerializer,  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            },
            404,
        ),
    )
    def get(self, request: Request) -> Response:
        """Get the preemptions."""
        found = preemptions_of(**FormattedParameters.read(request).asked(request))
        if request.accepted_renderer.format == "csv":
            return _csv(preemption_lines(found), found.scope, "preemptions")
        return Response(PreemptionHistorySerializer(preemptions_body(found)).data)


class WeekParameters(Parameters):
    """The node and the week of a summary."""

    node: str = text("Path of the node", required="give the path of a node")
    start: date | None = day("Monday of the week. Default: the last whole week")


class NodeWeek(APIView):
    """The figures of a node in one week."""

    @extend_schema(
        operation_id="get_week",
        summary="Get use, waits, waste, cost and rejected requests of a node in one week",
        description="Leads get these figures each Monday at 08:00 of the organization's time zone. "
        "Each number equals that of the report behind its link.",
        parameters=WeekParameters.in_openapi(),
        responses=answers({200: WeekSerializer}, 403, 404),
    )
    def get(self, request: Request) -> Response:
        """Get the week."""
        asked = WeekParameters.read(request)
        week = week_of(
            asked.node,
            start=asked.start,
            actor=actor_from(request),
            now=SystemClock().now(),
        )
        return Response(WeekSerializer(week_body(week)).data)
