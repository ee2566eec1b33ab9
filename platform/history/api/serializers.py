"""Shapes of histories."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from billing.models import UsageClass
from history.integrals import Level
from history.preemptions import PreemptionHistory
from history.scope import Scope
from history.steps import Step
from history.use import History, Series
from history.waits import WaitGroup, WaitHistory
from history.week import Week, figures_of, sentence_of
from notices.api.serializers import FigureSerializer
from primitives.units import DeviceKind
from webapi.serializers import DEVICE_HELP, DEVICES

_HELP = {
    "guaranteed_mgpu_s": "Use charged as guaranteed",
    "borrowed_mgpu_s": "Use charged as borrowed",
    "unpaid_mgpu_s": "Borrowed use without credits",
    "fault_mgpu_s": "Use that a fault made worthless; costs nothing",
    "waiting_mgpu_s": "GPUs of queued jobs, times the seconds that they waited",
    "guarantee_mgpu_s": "The guarantee, used or not",
    "within_mgpu_s": "Use inside of the node's guarantee",
    "lent_mgpu_s": "Idle guarantee that others used",
}


class LevelsSerializer(serializers.Serializer[Any]):
    """Integrals of a node in milli-GPU-seconds.

    Use is the sum of the four classes. Use above the guarantee is use less `within`. The idle
    guarantee is the guarantee less `within` and `lent`.
    """

    guaranteed_mgpu_s = serializers.IntegerField(help_text=_HELP["guaranteed_mgpu_s"])
    borrowed_mgpu_s = serializers.IntegerField(help_text=_HELP["borrowed_mgpu_s"])
    unpaid_mgpu_s = serializers.IntegerField(help_text=_HELP["unpaid_mgpu_s"])
    fault_mgpu_s = serializers.IntegerField(help_text=_HELP["fault_mgpu_s"])
    waiting_mgpu_s = serializers.IntegerField(help_text=_HELP["waiting_mgpu_s"])
    guarantee_mgpu_s = serializers.IntegerField(help_text=_HELP["guarantee_mgpu_s"])
    within_mgpu_s = serializers.IntegerField(help_text=_HELP["within_mgpu_s"])
    lent_mgpu_s = serializers.IntegerField(help_text=_HELP["lent_mgpu_s"])


def _list_of(name: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.IntegerField(), help_text=_HELP[name])


class LevelStepsSerializer(serializers.Serializer[Any]):
    """The same integrals of each step, in the order of the steps. Empty: the node has no steps."""

    guaranteed_mgpu_s = _list_of("guaranteed_mgpu_s")
    borrowed_mgpu_s = _list_of("borrowed_mgpu_s")
    unpaid_mgpu_s = _list_of("unpaid_mgpu_s")
    fault_mgpu_s = _list_of("fault_mgpu_s")
    waiting_mgpu_s = _list_of("waiting_mgpu_s")
    guarantee_mgpu_s = _list_of("guarantee_mgpu_s")
    within_mgpu_s = _list_of("within_mgpu_s")
    lent_mgpu_s = _list_of("lent_mgpu_s")


class SeriesSerializer(serializers.Serializer[Any]):
    """The integrals of a node: their sums over the period, and by step."""

    node = serializers.CharField()
    sums = LevelsSerializer()
    steps = LevelStepsSerializer()


class PairSerializer(serializers.Serializer[Any]):
    """Use of a child above its guarantee, and whose idle guarantee made it possible.

    "(reserve)" is the node's guarantee that it gave to no child, "(outside)" everything outside the
    node. GPUs of a pool are interchangeable, so each borrower borrows from all lenders of that
    second in proportion.
    """

    borrower = serializers.CharField()
    lender = serializers.CharField()
    mgpu_s = serializers.IntegerField()


class WeekHourSerializer(serializers.Serializer[Any]):
    """Use and guarantee in an hour of the week, as the clock of the organization showed it."""

    weekday = serializers.IntegerField(help_text="Monday is 0")
    hour = serializers.IntegerField()
    used_mgpu_s = serializers.IntegerField()
    guarantee_mgpu_s = serializers.IntegerField()


class CapacitySerializer(serializers.Serializer[Any]):
    """The capacity of the whole pool, in milli-GPU-seconds: its sum, and by step."""

    sum_mgpu_s = serializers.IntegerField()
    steps_mgpu_s = serializers.ListField(child=serializers.IntegerField())


class _OfScopeSerializer(serializers.Serializer[Any]):
    node = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField(help_text="Running and waiting jobs count until then")
    time_zone = serializers.CharField()
    step = serializers.ChoiceField(choices=[step.value for step in Step])
    edges = serializers.ListField(
        child=serializers.DateTimeField(),
        help_text="The start of each step, then the end of the last one",
    )


class UseHistorySerializer(_OfScopeSerializer):
    """The history of a node in a pool. All numbers are exact to the second."""

    series = SeriesSerializer()
    children = SeriesSerializer(
        many=True, help_text="The nodes directly below, those with the most use first"
    )
    pairs = PairSerializer(many=True, help_text="Who borrowed from whom, the most first")
    week = WeekHourSerializer(many=True)
    capacity = CapacitySerializer()


class WaitsSerializer(serializers.Serializer[Any]):
    """Waits of jobs from submission, or their begin time, to their first start."""

    usage_class = serializers.ChoiceField(
        choices=[UsageClass.GUARANTEED.value, UsageClass.BORROWED.value],
        help_text="Borrowed if any of the job's GPUs was borrowed at its start",
    )
    jobs = serializers.IntegerField()
    p50_s = serializers.IntegerField(help_text="Half of the jobs waited no longer, in seconds")
    p95_s = serializers.IntegerField(help_text="95 % of the jobs waited no longer, in seconds")


class TeamWaitsSerializer(WaitsSerializer):
    """The waits of a team's jobs."""

    team = serializers.CharField()


class StepWaitsSerializer(WaitsSerializer):
    """The waits of the jobs that started first in a step."""

    step = serializers.IntegerField(help_text="Number of the step, from 0")


class WaitHistorySerializer(_OfScopeSerializer):
    """The waits before the first starts of a node's jobs in a pool."""

    totals = WaitsSerializer(many=True)
    teams = TeamWaitsSerializer(many=True)
    steps = StepWaitsSerializer(many=True)


class PreemptedSerializer(serializers.Serializer[Any]):
    """The preemptions of a team's jobs for jobs of another team."""

    team = serializers.CharField()
    for_team = serializers.CharField(help_text='"(outside)" is another organization')
    preemptions = serializers.IntegerField()
    jobs = serializers.IntegerField()
    lost_mgpu_s = serializers.IntegerField(
        help_text="Work since the last checkpoint or the start, in milli-GPU-seconds"
    )


class PreemptionHistorySerializer(serializers.Serializer[Any]):
    """The preemptions of a node's jobs, and for them. The sums count its own jobs only."""

    node = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField()
    time_zone = serializers.CharField()
    preemptions = serializers.IntegerField()
    lost_mgpu_s = serializers.IntegerField()
    rows = PreemptedSerializer(many=True)


class PoolWeekSerializer(serializers.Serializer[Any]):
    """The figures of a node in a pool in one week."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    used_mgpu_s = serializers.IntegerField()
    idle_mgpu_s = serializers.IntegerField(help_text="Guarantee that nobody used")
    waits = WaitsSerializer(many=True)
    preemptions = serializers.IntegerField()
    lost_mgpu_s = serializers.IntegerField(help_text="Work that preemptions lost")
    cost_nano = serializers.IntegerField()
    currency = serializers.CharField(allow_null=True, help_text="Null: no rate card")


class WeekSerializer(serializers.Serializer[Any]):
    """The figures of a node in one week. `figures` has each of them as text, with its page."""

    node = serializers.CharField()
    start = serializers.DateField(help_text="A Monday")
    end = serializers.DateField(help_text="The next Monday")
    time_zone = serializers.CharField()
    sentence = serializers.CharField()
    pools = PoolWeekSerializer(many=True)
    rejected_requests = serializers.IntegerField(help_text="Requests that were rejected")
    figures = FigureSerializer(many=True)


_NAMES = [f"{level.name.lower()}_mgpu_s" for level in Level]


def _series_body(series: Series) -> dict[str, Any]:
    columns = list(zip(*series.steps, strict=True)) or [()] * len(Level)
    return {
        "node": series.node,
        "sums": dict(zip(_NAMES, series.sums, strict=True)),
        "steps": {name: list(column) for name, column in zip(_NAMES, columns, strict=True)},
    }


def _scope_body(scope: Scope) -> dict[str, Any]:
    period = scope.period
    return {
        "node": scope.path,
        "pool": scope.pool.name,
        "device": DeviceKind(scope.pool.device).value,
        "start": period.start,
        "end": period.end,
        "as_of": period.as_of,
        "time_zone": scope.zone.key,
    }


def history_body(history: History) -> dict[str, Any]:
    """Return the history for `UseHistorySerializer`."""
    return {
        **_scope_body(history.scope),
        "step": history.step.value,
        "edges": list(history.edges),
        "series": _series_body(history.series),
        "children": [_series_body(child) for child in history.children],
        "pairs": history.pairs,
        "week": history.week,
        "capacity": {
            "sum_mgpu_s": sum(history.capacity),
            "steps_mgpu_s": history.capacity,
        },
    }


def _waits_body(group: WaitGroup) -> dict[str, Any]:
    return {
        "usage_class": group.usage_class.value,
        "jobs": group.waits.jobs,
        "p50_s": group.waits.p50_s,
        "p95_s": group.waits.p95_s,
        "team": group.team,
        "step": group.step,
    }


def waits_body(history: WaitHistory) -> dict[str, Any]:
    """Return the waits for `WaitHistorySerializer`."""
    groups = history.groups
    return {
        **_scope_body(history.scope),
        "step": history.step.value,
        "edges": list(history.edges),
        "totals": [_waits_body(one) for one in groups if one.team is None and one.step is None],
        "teams": [_waits_body(one) for one in groups if one.team is not None],
        "steps": [_waits_body(one) for one in groups if one.step is not None],
    }


def preemptions_body(history: PreemptionHistory) -> dict[str, Any]:
    """Return the preemptions for `PreemptionHistorySerializer`."""
    return {
        **_scope_body(history.scope),
        "preemptions": history.preemptions,
        "lost_mgpu_s": history.lost_mgpu_s,
        "rows": history.rows,
    }


def week_body(week: Week) -> dict[str, Any]:
    """Return the week for `WeekSerializer`."""
    return {
        "node": week.node,
        "start": week.start,
        "end": week.end,
        "time_zone": week.zone.key,
        "sentence": sentence_of(week),
        "pools": [
            {
                "pool": pool.pool,
                "device": pool.device.value,
                "used_mgpu_s": pool.used_mgpu_s,
                "idle_mgpu_s": pool.idle_mgpu_s,
                "waits": [_waits_body(group) for group in pool.waits],
                "preemptions": pool.preemptions,
                "lost_mgpu_s": pool.lost_mgpu_s,
                "cost_nano": pool.cost_nano,
                "currency": pool.currency,
            }
            for pool in week.pools
        ],
        "rejected_requests": week.rejected_requests,
        "figures": figures_of(week),
    }
