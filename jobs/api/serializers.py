"""Serializers of jobs, which describe bodies and requests to OpenAPI.

`jobs.api.rendering` renders the bodies. The members of a job request, and those of them that a job
shows, are declared in `jobs.submission.job_members`.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from arbiter.api.plan import Code
from billing.models import PriceMode
from budgets.models import Measure, Policy
from jobs.models import (
    AttemptState,
    Condition,
    JobOrigin,
    JobState,
    JobType,
    StopReason,
)
from jobs.queue import reason_documents
from jobs.queue.withholding import (
    ARRAY_LIMIT_REACHED,
    BEGIN_TIME,
    BUDGET_EXHAUSTED,
    CLUSTER_ARCHIVED,
    DEPENDENCY,
    POOL_ARCHIVED,
    SINGLETON,
    TEAM_ARCHIVED,
    USER_CAP_REACHED,
    USER_DEACTIVATED,
)
from jobs.reading import explaining
from jobs.reading.giving_back import NoticeHandling
from jobs.reading.part_costs import MIXED
from jobs.submission.job_members import STORED_IN_LISTS, STORED_ON_PAGES
from jobs.submission.sbatch_notes import Verdict
from webapi.serializers import DEVICE_HELP, DEVICES

EXPLANATION_CODES = [
    *(code.value for code in Code),
    DEPENDENCY,
    SINGLETON,
    ARRAY_LIMIT_REACHED,
    BEGIN_TIME,
    BUDGET_EXHAUSTED,
    USER_CAP_REACHED,
    TEAM_ARCHIVED,
    USER_DEACTIVATED,
    CLUSTER_ARCHIVED,
    POOL_ARCHIVED,
    reason_documents.HELD_BY_USER,
    explaining.DISPATCHING,
    explaining.NOT_YET_DECIDED,
    explaining.NOT_WAITING,
    explaining.WOULD_START,
]
ACTIONS = ["cancel", "requeue", "extend", "hold", "release", "logs"]


class ShowsStored(serializers.Serializer[Any]):
    """A body that also has members of the job request, which `jobs.api.openapi` describes."""

    stored: tuple[str, ...] = ()


class SlotSerializer(serializers.Serializer[Any]):
    """GPUs on one node."""

    node = serializers.CharField()
    mgpu = serializers.IntegerField()


class MadeRoomForSerializer(serializers.Serializer[Any]):
    """The job for which an attempt was preempted. Members that the caller may not see are null."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    team = serializers.CharField(
        allow_null=True, help_text="Path; null if the caller may not see it"
    )
    mgpu = serializers.IntegerField(allow_null=True, help_text="Requested in total")


class AttemptSerializer(serializers.Serializer[Any]):
    """One execution of a job on one cluster."""

    id = serializers.UUIDField()
    number = serializers.IntegerField(help_text="From 1")
    cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=AttemptState.values)
    native_id = serializers.CharField(allow_null=True, help_text="The id of the job on the cluster")
    native_state = serializers.CharField(help_text="The state as the cluster calls it")
    slots = SlotSerializer(many=True)
    granted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    checkpoint_at = serializers.DateTimeField(
        allow_null=True,
        help_text="Last known checkpoint; a preemption loses only the work after it",
    )
    notice_at = serializers.DateTimeField(allow_null=True)
    grace_until = serializers.DateTimeField(
        allow_null=True, help_text="The job is killed at this time"
    )
    ended_at = serializers.DateTimeField(allow_null=True)
    released_at = serializers.DateTimeField(
        allow_null=True, help_text="Since then its GPUs are free"
    )
    stop_reason = serializers.ChoiceField(
        choices=StopReason.values,
        allow_null=True,
        help_text="Why the portal asked its cluster to end it; null: it did not",
    )
    outcome = serializers.CharField(allow_null=True)
    exit_codes = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="By rank; negative: killed by that signal number",
    )
    ignored_notice = serializers.BooleanField(
        help_text="Whether it was killed because it had not ended within its grace"
    )
    mgpu = serializers.IntegerField()
    guaranteed_mgpu = serializers.IntegerField()
    borrowed_mgpu = serializers.IntegerField()
    message = serializers.CharField()
    beneficiary = serializers.UUIDField(
        allow_null=True, help_text="The job that gets its GPUs, if the caller may see it"
    )
    made_room_for = MadeRoomForSerializer(
        allow_null=True, help_text="The same job, as far as the caller may see it; null: none"
    )


class VictimSerializer(serializers.Serializer[Any]):
    """A preempted job. Members that the caller may not see are null."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    team = serializers.CharField(allow_null=True)
    mgpu = serializers.IntegerField()
    notice_at = serializers.DateTimeField(allow_null=True)
    grace_until = serializers.DateTimeField(allow_null=True)
    at_risk_mgpu_s = serializers.IntegerField(
        allow_null=True, help_text="GPU time since its last checkpoint, or since its start"
    )
    notice_handling = serializers.ChoiceField(
        choices=[item.value for item in NoticeHandling],
        allow_null=True,
        help_text="How it is known to react to its notice; null: not known",
    )


class EstimatedStartSerializer(serializers.Serializer[Any]):
    """A range for the start of a job, and the method of the estimate. It is no promise."""

    earliest = serializers.DateTimeField(allow_null=True)
    latest = serializers.DateTimeField(allow_null=True)
    method = serializers.CharField()


class ObstacleSerializer(serializers.Serializer[Any]):
    """The reason why a job that accepts several pools does not start in one of them."""

    pool = serializers.CharField()
    code = serializers.ChoiceField(choices=EXPLANATION_CODES)
    sentence = serializers.CharField()
    numbers = serializers.DictField(child=serializers.IntegerField())
    node = serializers.CharField(allow_null=True)
    jobs_ahead = serializers.IntegerField(help_text="Jobs ahead of it in this pool")


class ExplanationSerializer(serializers.Serializer[Any]):
    """The reason why a job waits."""

    code = serializers.ChoiceField(choices=EXPLANATION_CODES)
    sentence = serializers.CharField()
    numbers = serializers.DictField(child=serializers.IntegerField())
    node = serializers.CharField(allow_null=True, help_text="Path of the node whose limit binds")
    jobs_ahead = serializers.IntegerField()
    victims = VictimSerializer(many=True)
    estimated_start = EstimatedStartSerializer(
        allow_null=True,
        help_text="Null if unknown. With the code begin_time it is not before the number begin_at",
    )
    pool = serializers.CharField(
        allow_null=True,
        help_text="Of a job that accepts several pools: the pool of this reason; else null",
    )
    elsewhere = ObstacleSerializer(
        many=True, help_text="The same for the other pools that it accepts, in its order; at most 3"
    )
    as_of = serializers.DateTimeField()


class JobUsageSerializer(serializers.Serializer[Any]):
    """The usage of a job so far, over all its attempts."""

    guaranteed_mgpu_s = serializers.IntegerField()
    borrowed_mgpu_s = serializers.IntegerField()


class JobCostSerializer(serializers.Serializer[Any]):
    """The cost of a job so far, over all its attempts, as billed."""

    cost_nano = serializers.IntegerField()
    currency = serializers.CharField()


class WorkCostSerializer(serializers.Serializer[Any]):
    """The cost of a job's use over some time, at the prices of that time."""

    cost_nano = serializers.IntegerField(help_text="The billed cost")
    unbilled_nano = serializers.IntegerField(
        help_text="Cost beside it that is not billed: showback, or use that a commitment pays"
    )
    price_mode = serializers.ChoiceField(
        choices=[*PriceMode.choices, (MIXED, "Mixed")],
        help_text="Why it is not billed; mixed: partly by showback, partly by a commitment",
    )
    currency = serializers.CharField()


class ArrayTaskSerializer(serializers.Serializer[Any]):
    """The array of a job, and its index there."""

    id = serializers.UUIDField(help_text="Id of the array")
    index = serializers.IntegerField()
    size = serializers.IntegerField(help_text="Number of tasks of the array")


class JobSerializer(ShowsStored):
    """A job."""

    stored = STORED_IN_LISTS

    id = serializers.UUIDField()
    name = serializers.CharField()
    type = serializers.ChoiceField(choices=JobType.values)
    origin = serializers.ChoiceField(
        choices=JobOrigin.values, help_text="native: submitted directly to its cluster"
    )
    team = serializers.CharField(help_text="Path")
    user = serializers.CharField(help_text="Username")
    organization = serializers.CharField(help_text="Slug")
    pool = serializers.CharField(
        help_text="Pool of its latest attempt; before its first start the first of `pools`"
    )
    pools = serializers.ListField(
        child=serializers.CharField(), help_text="Pools that it accepts, the preferred first"
    )
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    state = serializers.ChoiceField(choices=JobState.values)
    priority_class = serializers.CharField()
    mgpu_per_node = serializers.IntegerField()
    node_count = serializers.IntegerField(help_text="Of an elastic job the maximum")
    node_count_min = serializers.IntegerField(
        help_text="Minimum to start with; below `node_count` the job is elastic"
    )
    mgpu = serializers.IntegerField(
        help_text="Requested in total, of an elastic job the maximum; the attempt has the granted "
        "number"
    )
    mgpu_min = serializers.IntegerField(help_text="Minimum to start with")
    cluster = serializers.CharField(
        allow_null=True, help_text="The cluster that the job is pinned to"
    )
    array = ArrayTaskSerializer(allow_null=True, help_text="null if the job is no task of an array")
    submitted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(
        allow_null=True, help_text="Start of the current attempt"
    )
    ended_at = serializers.DateTimeField(allow_null=True)
    end_reason = serializers.CharField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    exit_code_meaning = serializers.CharField(
        allow_null=True, help_text="Meaning of the exit code, such as `command not found`"
    )
    attempt = serializers.IntegerField(help_text="Number of the latest attempt, 0 before the first")
    current_attempt = AttemptSerializer(allow_null=True)
    notice_handling = serializers.ChoiceField(
        choices=[item.value for item in NoticeHandling],
        allow_null=True,
        help_text="How it is known to react to its notice; null: not known",
    )
    explanation = ExplanationSerializer(allow_null=True)
    usage = JobUsageSerializer()
    can = serializers.ListField(child=serializers.ChoiceField(choices=ACTIONS))


class NoteSerializer(serializers.Serializer[Any]):
    """How one line of an sbatch script was read. Line 0 is the whole script."""

    line = serializers.IntegerField()
    text = serializers.CharField()
    verdict = serializers.ChoiceField(choices=[verdict.value for verdict in Verdict])
    detail = serializers.CharField()


class DependencySerializer(serializers.Serializer[Any]):
    """A job or an array that a job waits or waited for.

    Id, name and state are null where the caller may not see the other job. The state of an array
    is `running` until the result of all its tasks is known.
    """

    job = serializers.UUIDField(allow_null=True)
    array = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=JobState.values, allow_null=True)
    condition = serializers.ChoiceField(choices=Condition.values)
    is_met = serializers.BooleanField(
        allow_null=True, help_text="null: not decided yet; false: it can no longer be met"
    )


class ScheduleOfJobSerializer(serializers.Serializer[Any]):
    """The schedule that submitted a job."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class BudgetEffectSerializer(serializers.Serializer[Any]):
    """The amount that a job may use of a budget, in the unit of the budget's measure."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    node = serializers.CharField(help_text="Path of the node whose subtree counts")
    measure = serializers.ChoiceField(choices=Measure.values)
    currency = serializers.CharField(allow_null=True, help_text="Of a measure in money; else null")
    policy = serializers.ChoiceField(choices=Policy.values, help_text="Effect at 100 %")
    limit = serializers.IntegerField()
    needed = serializers.IntegerField(
        help_text="The most that the job may use until its time limit or the end of the budget's "
        "period. Of an array: all tasks"
    )
    left_after = serializers.IntegerField(
        help_text="Limit less use, holds of running jobs, and `needed`. Queued jobs do not count"
    )
    room_at = serializers.DateTimeField(
        help_text="When a used-up budget has room again at the latest"
    )


class WaitingCostsSerializer(serializers.Serializer[Any]):
    """The most that a waiting job costs at present prices, and its effect on budgets."""

    seconds = serializers.IntegerField(
        help_text="Time of the cost: the time limit, or an hour without one"
    )
    cost_nano = serializers.IntegerField(
        allow_null=True,
        help_text="What its next attempt is billed at most; null without a price, and for others "
        "than the owner without view_costs",
    )
    unbilled_nano = serializers.IntegerField(
        allow_null=True,
        help_text="What it would cost beside it: showback, or guaranteed use that the team's "
        "commitment pays. It is not billed",
    )
    price_mode = serializers.ChoiceField(choices=PriceMode.choices, allow_null=True)
    currency = serializers.CharField(allow_null=True)
    budgets = BudgetEffectSerializer(many=True, help_text="Those of them that the caller may see")


class JobDetailSerializer(JobSerializer):
    """A job with its script, environment and dependencies."""

    stored = (*STORED_IN_LISTS, *STORED_ON_PAGES)

    script = serializers.CharField(allow_null=True, help_text="null if the caller may not read it")
    environment = serializers.DictField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="null if the caller may not read it",
    )
    notes = NoteSerializer(many=True)
    cost = JobCostSerializer(
        allow_null=True,
        help_text="null where there is no rate card, and for others than the owner without "
        "view_costs",
    )
    plan = WaitingCostsSerializer(
        allow_null=True, help_text="Costs if it starts now; null unless it is queued or held"
    )
    schedule = ScheduleOfJobSerializer(
        allow_null=True, help_text="The schedule that submitted it; null for other jobs"
    )
    depends_on = DependencySerializer(many=True)


class SubmittedJobSerializer(JobSerializer):
    """The new job, with notes on the lines of its sbatch script."""

    notes = NoteSerializer(many=True)


class JobRequestSerializer(serializers.Serializer[Any]):
    """Stands for `jobs.submission.job_members.JobMembers` in OpenAPI (`jobs.api.openapi`)."""


class ResolvedJobSerializer(ShowsStored):
    """A request with every default and choice filled in."""

    stored = (*STORED_IN_LISTS, *STORED_ON_PAGES)

    name = serializers.CharField()
    type = serializers.ChoiceField(choices=JobType.values)
    team = serializers.CharField()
    pool = serializers.CharField(help_text="The first of `pools`")
    pools = serializers.ListField(child=serializers.CharField())
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    priority_class = serializers.CharField()
    mgpu_per_node = serializers.IntegerField()
    node_count = serializers.IntegerField()
    node_count_min = serializers.IntegerField()
    mgpu = serializers.IntegerField()
    mgpu_min = serializers.IntegerField()
    cluster = serializers.CharField(allow_null=True)
    held = serializers.BooleanField()
    tasks = serializers.IntegerField(help_text="Number of tasks of the array; 1 for a single job")
    tasks_at_once = serializers.IntegerField(
        allow_null=True, help_text="Tasks that may run at once; null: all"
    )


class JobPlanSerializer(serializers.Serializer[Any]):
    """The plan of a request: the result if it were submitted now. It reserves nothing.

    For an array the plan, its GPUs and its cost are those of the first task.
    """

    job = ResolvedJobSerializer()
    notes = NoteSerializer(many=True)
    fits = serializers.BooleanField(help_text="false: the job could never run, or would be refused")
    explanation = ExplanationSerializer()
    would_start_now = serializers.BooleanField()
    mgpu = serializers.IntegerField(help_text="GPUs that it would start with now, or waits for")
    guaranteed_mgpu = serializers.IntegerField()
    borrowed_mgpu = serializers.IntegerField()
    cluster = serializers.CharField(allow_null=True, help_text="Cluster where it would start now")
    pool = serializers.CharField(
        help_text="Pool where it would start now, else that of the explanation; the cost is for it"
    )
    cost_per_hour_nano = serializers.IntegerField(
        allow_null=True, help_text="What an hour is billed; null without a price"
    )
    unbilled_per_hour_nano = serializers.IntegerField(
        allow_null=True,
        help_text="What an hour would cost beside it: showback, or guaranteed use that the team's "
        "commitment pays. It is not billed",
    )
    price_mode = serializers.ChoiceField(choices=PriceMode.choices, allow_null=True)
    currency = serializers.CharField(allow_null=True)
    cost_cap_after_s = serializers.IntegerField(
        allow_null=True,
        help_text="Seconds of run after which it reaches its cost cap at present prices; null: it "
        "has none, or no price",
    )
    budgets = BudgetEffectSerializer(many=True, help_text="Those of them that you may see")
