"""Shapes of jobs. Bodies are rendered by `jobs.api.rendering`; requests are read by
`jobs.submission.requests`, which reports every error at once. These describe both to OpenAPI."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from arbiter.api.plan import Code
from jobs.models import (
    CPUS_PER_NODE_MAX,
    MEMORY_MIB_PER_NODE_MAX,
    POOLS_MAX,
    TOPOLOGIES,
    AttemptState,
    Condition,
    JobOrigin,
    JobState,
    JobType,
)
from jobs.queue import reason_documents
from jobs.queue.dependencies import DEPENDENCIES_MAX
from jobs.queue.withholding import (
    ARRAY_LIMIT_REACHED,
    BEGIN_TIME,
    CLUSTER_ARCHIVED,
    DEPENDENCY,
    POOL_ARCHIVED,
    TEAM_ARCHIVED,
    USER_DEACTIVATED,
)
from jobs.reading import explaining
from jobs.reading.giving_back import NoticeHandling
from jobs.submission.array_text import TASKS_MAX, TEXT_MAX
from jobs.submission.requests import FEATURES_MAX, IMAGE_MAX, TIME_LIMIT_S_MAX
from jobs.submission.sbatch import FEATURE, NOTICE_SIGNALS, Verdict
from webapi.serializers import DEVICE_HELP, DEVICES

EXPLANATION_CODES = [
    *(code.value for code in Code),
    DEPENDENCY,
    ARRAY_LIMIT_REACHED,
    BEGIN_TIME,
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
ACTIONS = ["cancel", "hold", "release", "logs"]


class SlotSerializer(serializers.Serializer[Any]):
    """GPUs on one node."""

    node = serializers.CharField()
    mgpu = serializers.IntegerField()


class MadeRoomForSerializer(serializers.Serializer[Any]):
    """The job for which an attempt was stopped. What the caller may not see of it is null."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    team = serializers.CharField(allow_null=True, help_text="Path; null: of another team")
    mgpu = serializers.IntegerField(allow_null=True, help_text="What it asks for in all")


class AttemptSerializer(serializers.Serializer[Any]):
    """One execution of a job on one cluster."""

    id = serializers.UUIDField()
    number = serializers.IntegerField(help_text="From 1")
    cluster = serializers.CharField()
    state = serializers.ChoiceField(choices=AttemptState.values)
    native_id = serializers.CharField(allow_null=True, help_text="The cluster's own id")
    native_state = serializers.CharField(help_text="The cluster's own word")
    slots = SlotSerializer(many=True)
    granted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    checkpoint_at = serializers.DateTimeField(
        allow_null=True, help_text="Its last known checkpoint: what is older is not lost by a stop"
    )
    notice_at = serializers.DateTimeField(allow_null=True)
    grace_until = serializers.DateTimeField(allow_null=True, help_text="Stopped by force then")
    ended_at = serializers.DateTimeField(allow_null=True)
    released_at = serializers.DateTimeField(allow_null=True, help_text="Its GPUs are free since")
    outcome = serializers.CharField(allow_null=True)
    exit_codes = serializers.DictField(
        child=serializers.IntegerField(), help_text="By rank; negative: killed by that signal"
    )
    ignored_notice = serializers.BooleanField(
        help_text="It was stopped by force because it had not ended when its grace was over"
    )
    mgpu = serializers.IntegerField()
    guaranteed_mgpu = serializers.IntegerField()
    borrowed_mgpu = serializers.IntegerField()
    message = serializers.CharField()
    beneficiary = serializers.UUIDField(
        allow_null=True, help_text="The job it makes room for, if the caller may see that one"
    )
    made_room_for = MadeRoomForSerializer(
        allow_null=True, help_text="The same job as far as the caller may see it; null: none"
    )


class VictimSerializer(serializers.Serializer[Any]):
    """A job that gives GPUs back. What the caller may not see of it is null."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    team = serializers.CharField(allow_null=True)
    mgpu = serializers.IntegerField()
    notice_at = serializers.DateTimeField(allow_null=True)
    grace_until = serializers.DateTimeField(allow_null=True)
    at_risk_mgpu_s = serializers.IntegerField(
        allow_null=True, help_text="Its GPU time since its last checkpoint, else since its start"
    )
    notice_handling = serializers.ChoiceField(
        choices=[item.value for item in NoticeHandling],
        allow_null=True,
        help_text="Why it is expected to save its work at its notice; null: not known",
    )


class EstimatedStartSerializer(serializers.Serializer[Any]):
    """A range and how it came about, never a promise."""

    earliest = serializers.DateTimeField(allow_null=True)
    latest = serializers.DateTimeField(allow_null=True)
    method = serializers.CharField()


class ObstacleSerializer(serializers.Serializer[Any]):
    """Why a job that accepts several pools does not start in one of them."""

    pool = serializers.CharField()
    code = serializers.ChoiceField(choices=EXPLANATION_CODES)
    sentence = serializers.CharField()
    numbers = serializers.DictField(child=serializers.IntegerField())
    node = serializers.CharField(allow_null=True)
    jobs_ahead = serializers.IntegerField(help_text="In this pool")


class ExplanationSerializer(serializers.Serializer[Any]):
    """Why a job waits."""

    code = serializers.ChoiceField(choices=EXPLANATION_CODES)
    sentence = serializers.CharField()
    numbers = serializers.DictField(child=serializers.IntegerField())
    node = serializers.CharField(allow_null=True, help_text="Path of the node whose limit binds")
    jobs_ahead = serializers.IntegerField()
    victims = VictimSerializer(many=True)
    estimated_start = EstimatedStartSerializer(
        allow_null=True,
        help_text="Null where it is unknown; of begin_time, not before the number begin_at",
    )
    pool = serializers.CharField(
        allow_null=True,
        help_text="Of a job that accepts several: the one that code, numbers and the rest are of",
    )
    elsewhere = ObstacleSerializer(
        many=True, help_text="The other pools in whose lines it stands, in its order; at most 3"
    )
    as_of = serializers.DateTimeField()


class JobUsageSerializer(serializers.Serializer[Any]):
    """What the job has used so far, over all its attempts."""

    guaranteed_mgpu_s = serializers.IntegerField()
    borrowed_mgpu_s = serializers.IntegerField()


class ArrayTaskSerializer(serializers.Serializer[Any]):
    """Which task of which array a job is."""

    id = serializers.UUIDField(help_text="Of the array")
    index = serializers.IntegerField()
    size = serializers.IntegerField(help_text="How many tasks the array has")


class JobSerializer(serializers.Serializer[Any]):
    """A job."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    type = serializers.ChoiceField(choices=JobType.values)
    origin = serializers.ChoiceField(
        choices=JobOrigin.values, help_text="native: given to its cluster beside the portal"
    )
    team = serializers.CharField(help_text="Path")
    user = serializers.CharField(help_text="Username")
    organization = serializers.CharField(help_text="Slug")
    pool = serializers.CharField(
        help_text="Where it runs or ran last; before its first start the first of `pools`"
    )
    pools = serializers.ListField(
        child=serializers.CharField(), help_text="Those that it accepts, the best first"
    )
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    state = serializers.ChoiceField(choices=JobState.values)
    priority_class = serializers.CharField()
    mgpu_per_node = serializers.IntegerField()
    node_count = serializers.IntegerField(help_text="Of an elastic job the most")
    node_count_min = serializers.IntegerField(
        help_text="With which it starts at the least; less than `node_count`: it is elastic"
    )
    mgpu = serializers.IntegerField(
        help_text="In all, of an elastic job the most; what it was granted is in the attempt"
    )
    mgpu_min = serializers.IntegerField(help_text="With which it starts at the least")
    time_limit_s = serializers.IntegerField(allow_null=True)
    is_preemptible = serializers.BooleanField()
    is_requeueable = serializers.BooleanField()
    checkpoint_path = serializers.CharField(allow_null=True)
    cluster = serializers.CharField(allow_null=True, help_text="The one it is pinned to")
    features = serializers.ListField(
        child=serializers.CharField(), help_text="What each of its nodes must have"
    )
    image = serializers.CharField(allow_null=True, help_text="The container image it runs in")
    required_topology = serializers.ChoiceField(
        choices=TOPOLOGIES,
        allow_null=True,
        help_text="All its nodes are in one of these, or it waits",
    )
    preferred_topology = serializers.ChoiceField(
        choices=TOPOLOGIES,
        allow_null=True,
        help_text="All its nodes are in one of these if there is room, else as close as there is",
    )
    cpus_per_node = serializers.IntegerField(
        allow_null=True,
        help_text="null: as many as come with its GPUs there. In a pool of CPU cores what it has "
        "on each node: `mgpu_per_node` in whole cores, rounded down",
    )
    memory_mib_per_node = serializers.IntegerField(
        allow_null=True, help_text="null: as much as comes with its GPUs or cores there"
    )
    array = ArrayTaskSerializer(allow_null=True, help_text="null: it is no task of an array")
    submitted_at = serializers.DateTimeField()
    begin_at = serializers.DateTimeField(allow_null=True, help_text="It is not started before")
    started_at = serializers.DateTimeField(allow_null=True, help_text="Of the current attempt")
    ended_at = serializers.DateTimeField(allow_null=True)
    end_reason = serializers.CharField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    exit_code_meaning = serializers.CharField(
        allow_null=True, help_text="What the exit code says, such as `command not found`"
    )
    attempt = serializers.IntegerField(help_text="Number of the latest attempt, 0 before the first")
    current_attempt = AttemptSerializer(allow_null=True)
    explanation = ExplanationSerializer(allow_null=True)
    usage = JobUsageSerializer()
    can = serializers.ListField(child=serializers.ChoiceField(choices=ACTIONS))


class NoteSerializer(serializers.Serializer[Any]):
    """What became of one line of an sbatch text; line 0 is the whole text."""

    line = serializers.IntegerField()
    text = serializers.CharField()
    verdict = serializers.ChoiceField(choices=[verdict.value for verdict in Verdict])
    detail = serializers.CharField()


class DependencySerializer(serializers.Serializer[Any]):
    """A job or an array that a job waits or waited for. Its id and name are null where the caller
    may not see it, and so is its state. An array is running until it is known how it ends."""

    job = serializers.UUIDField(allow_null=True)
    array = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=JobState.values, allow_null=True)
    condition = serializers.ChoiceField(choices=Condition.values)
    is_met = serializers.BooleanField(
        allow_null=True, help_text="null: not decided; false: it never can be"
    )


class JobDetailSerializer(JobSerializer):
    """A job with what was submitted."""

    script = serializers.CharField(allow_null=True, help_text="null: the caller may not read it")
    environment = serializers.DictField(
        child=serializers.CharField(), allow_null=True, help_text="null as the script"
    )
    notice_signal = serializers.ChoiceField(
        choices=list(NOTICE_SIGNALS), help_text="Sent when its GPUs are asked back"
    )
    notes = NoteSerializer(many=True)
    depends_on = DependencySerializer(many=True)


class SubmittedJobSerializer(JobSerializer):
    """The new job and what became of the lines of its sbatch text."""

    notes = NoteSerializer(many=True)


class DependencyRequestSerializer(serializers.Serializer[Any]):
    """A job or an array of the same organization to wait for: one of both. `failed` is any end but
    success; of an array, that it has ended and not every task with success."""

    job = serializers.UUIDField(required=False)
    array = serializers.UUIDField(required=False, help_text="Every one of its tasks")
    condition = serializers.ChoiceField(choices=Condition.values)


class JobRequestSerializer(serializers.Serializer[Any]):
    """What to run. Either `gpus` in all (laid out on nodes when `nodes` is absent) or
    `gpus_per_node` and `nodes`, and in a pool of CPU cores `cpus_per_node` and `nodes`; either
    `script` or `sbatch`, whose directives are read, and over which the other members win."""

    team = serializers.CharField(help_text="Path: `ai-company/research/nlp`")
    name = serializers.CharField(required=False, max_length=200)
    pool = serializers.CharField(required=False, help_text="May be left out when there is one")
    pools = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        min_length=1,
        max_length=POOLS_MAX,
        help_text="Several that would do, instead of `pool`, the best first: it starts in one of "
        "them, and counts there for quota, fair-share and price",
    )
    gpus = serializers.FloatField(required=False, help_text="At most three decimals")
    gpus_per_node = serializers.FloatField(required=False)
    nodes = serializers.IntegerField(required=False, min_value=1)
    gpus_min = serializers.FloatField(
        required=False,
        help_text="Makes it elastic: it starts with `gpus_min` at least and with as much as there "
        "is, up to `gpus`; both are whole GPUs",
    )
    nodes_min = serializers.IntegerField(
        required=False, min_value=1, help_text="The same in nodes, beside `nodes`"
    )
    script = serializers.CharField(required=False, help_text="At most 1 MiB of UTF-8")
    sbatch = serializers.CharField(required=False, help_text="At most 1 MiB of UTF-8")
    time_limit = serializers.CharField(
        required=False,
        help_text="A length of time with its unit: 90s, 30m, 2h, 1d12h, or hours:minutes:seconds",
    )
    time_limit_s = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=TIME_LIMIT_S_MAX,
        help_text="The same in seconds, instead of `time_limit`",
    )
    priority_class = serializers.CharField(required=False, default="normal")
    type = serializers.ChoiceField(choices=JobType.values, required=False)
    environment = serializers.DictField(child=serializers.CharField(), required=False)
    is_preemptible = serializers.BooleanField(required=False, default=False)
    is_requeueable = serializers.BooleanField(required=False, default=True)
    checkpoint_path = serializers.CharField(required=False, help_text="Absolute")
    cluster = serializers.CharField(required=False, help_text="Pin it to this cluster")
    features = serializers.ListField(
        child=serializers.RegexField(FEATURE.pattern),
        required=False,
        max_length=FEATURES_MAX,
        help_text="Features that each of its nodes must have, all of them",
    )
    image = serializers.CharField(
        required=False,
        max_length=IMAGE_MAX,
        help_text="Container image to run in, on clusters that can: "
        "`nvcr.io#nvidia/pytorch:24.05-py3`, `docker://...`, or the path of a .sqsh file",
    )
    required_topology = serializers.ChoiceField(
        choices=TOPOLOGIES,
        required=False,
        help_text="All its nodes must be in one of these; it waits until they can",
    )
    preferred_topology = serializers.ChoiceField(
        choices=TOPOLOGIES,
        required=False,
        help_text="All its nodes should be in one of these, else as close together as there is "
        "room; not beside `required_topology`",
    )
    cpus_per_node = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=CPUS_PER_NODE_MAX,
        help_text="CPUs on each node, more or fewer than come with its GPUs there. In a pool of "
        "CPU cores, where no GPUs are asked for, the cores that count for quota and price",
    )
    memory_mib_per_node = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MEMORY_MIB_PER_NODE_MAX,
        help_text="Memory on each node, more or less than comes with its GPUs or cores there",
    )
    notice_signal = serializers.ChoiceField(
        choices=list(NOTICE_SIGNALS), required=False, default="TERM"
    )
    held = serializers.BooleanField(required=False, default=False)
    begin_at = serializers.DateTimeField(
        required=False,
        help_text="It waits until then, with its time zone; 366 days ahead at most",
    )
    depends_on = serializers.ListField(
        child=DependencyRequestSerializer(),
        required=False,
        max_length=DEPENDENCIES_MAX,
        help_text="It is not started before all are met; once one never can be, it is cancelled "
        "with the reason `dependency_never_met`",
    )
    array = serializers.CharField(
        required=False,
        max_length=TEXT_MAX,
        help_text=f"Makes a job array of at most {TASKS_MAX:,} tasks, as Slurm's `--array`: `0-9`, "
        "`1,3,5-7`, `0-31:4`, with `%K` for at most K at once. The answer is its first task, and "
        "`Location` the array",
    )


class ResolvedJobSerializer(serializers.Serializer[Any]):
    """A request with every choice made."""

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
    time_limit_s = serializers.IntegerField(allow_null=True)
    is_preemptible = serializers.BooleanField()
    is_requeueable = serializers.BooleanField()
    checkpoint_path = serializers.CharField(allow_null=True)
    cluster = serializers.CharField(allow_null=True)
    features = serializers.ListField(child=serializers.CharField())
    image = serializers.CharField(allow_null=True)
    required_topology = serializers.ChoiceField(choices=TOPOLOGIES, allow_null=True)
    preferred_topology = serializers.ChoiceField(choices=TOPOLOGIES, allow_null=True)
    cpus_per_node = serializers.IntegerField(allow_null=True)
    memory_mib_per_node = serializers.IntegerField(allow_null=True)
    notice_signal = serializers.ChoiceField(choices=list(NOTICE_SIGNALS))
    held = serializers.BooleanField()
    begin_at = serializers.DateTimeField(allow_null=True)
    tasks = serializers.IntegerField(help_text="Of the array; 1 for a single job")
    tasks_at_once = serializers.IntegerField(
        allow_null=True, help_text="How many tasks may run at once; null: all"
    )


class JobPlanSerializer(serializers.Serializer[Any]):
    """What would become of a request if it were sent now. Feasibility, not a reservation. Of an
    array everything is told of its first task, GPUs and cost too."""

    job = ResolvedJobSerializer()
    notes = NoteSerializer(many=True)
    fits = serializers.BooleanField(help_text="false: it could never run, or would be refused")
    explanation = ExplanationSerializer()
    would_start_now = serializers.BooleanField()
    mgpu = serializers.IntegerField(
        help_text="With which it would start now, or which it waits for"
    )
    guaranteed_mgpu = serializers.IntegerField()
    borrowed_mgpu = serializers.IntegerField()
    cluster = serializers.CharField(allow_null=True, help_text="Where it would start now")
    pool = serializers.CharField(
        help_text="Where it would start now, else that of the explanation; the cost is of this one"
    )
    cost_per_hour_nano = serializers.IntegerField(allow_null=True)
    currency = serializers.CharField(allow_null=True)
