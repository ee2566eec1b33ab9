"""Jobs, their attempts, and the claims by which GPUs come back."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid5

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex, GinIndex, OpClass
from django.db import models
from django.db.models import F, Q, Value, functions
from django.db.models.functions import Cast, Upper
from uuid_utils.compat import uuid7

from arbiter.api.decisions import Kind, Right
from arbiter.api.snapshot import Level
from clusters.models import Cluster, Pool
from jobs.metric_models import AttemptMetrics as AttemptMetrics
from jobs.metric_models import MetricPoint as MetricPoint
from jobs.saved_view_models import SavedView as SavedView
from jobs.schedule_models import Schedule as Schedule
from jobs.schedule_models import ScheduleRun as ScheduleRun
from jobs.template_models import JobTemplate as JobTemplate
from manifests.reading import read_manifest
from primitives.units import MGPU_MAX
from quotas.models import PriorityClass
from tenants.models import Node, User

#: The topology levels that a job may require or prefer, tightest first.
TOPOLOGIES = [level.value for level in Level]

#: The kinds of decision that a cycle records for a job.
DECISIONS = [kind.value for kind in Kind if kind is not Kind.WAITS]

#: The largest number of pools that a job may accept.
POOLS_MAX = 4
#: More CPUs and memory than a node has.
CPUS_PER_NODE_MAX = 65_536
SIGNAL_AHEAD_S_MAX = 86_400
MEMORY_MIB_PER_NODE_MAX = 1 << 30


#: Limits of restarts after ends in `Job.requeue_on`, and of the list itself.
REQUEUES_DEFAULT = 10
REQUEUES_MAX = 1_000
#: A billion currency units.
COST_CAP_NANO_MAX = 10**18
REQUEUE_CAUSES_MAX = 16


class JobType(models.TextChoices):
    """The kind of work of a job: a hint for people and policies."""

    TRAINING = "training"
    DISTRIBUTED = "distributed"
    INTERACTIVE = "interactive"
    INFERENCE = "inference"
    ARRAY = "array"


class JobState(models.TextChoices):
    """The states of a job (R-83); `jobs.lifecycle` holds the transitions."""

    HELD = "held"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PREEMPTING = "preempting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class JobOrigin(models.TextChoices):
    """The way by which a job came to its cluster: through the portal, or directly."""

    PORTAL = "portal"
    NATIVE = "native"


class Launch(models.TextChoices):
    """The place where a job's script runs: once on the first node, or once on every node.

    The script of a manifest job is a Kubernetes manifest, which says itself what runs.
    """

    BATCH = "batch"
    PER_NODE = "per_node"
    MANIFEST = "manifest"


class JobArray(models.Model):
    """Jobs that were submitted together and differ only in their index.

    `indices` is the text as the user wrote it. At most `max_running` tasks run at once (null: no
    limit).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    team = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=200)
    indices = models.TextField()
    size = models.IntegerField()
    first_index = models.IntegerField()
    last_index = models.IntegerField()
    max_running = models.IntegerField(null=True)
    submitted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(size__gte=1, size__lte=1_000), name="array_has_tasks"
            ),
            models.CheckConstraint(
                condition=Q(
                    first_index__gte=0,
                    first_index__lte=F("last_index"),
                    last_index__lte=1_000_000,
                ),
                name="array_indices_are_in_range",
            ),
            models.CheckConstraint(
                condition=Q(max_running=None) | Q(max_running__gte=1),
                name="array_lets_a_task_run",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}[{self.indices}] ({self.id})"


class Job(models.Model):
    """A unit of work that a person submitted: one request, one permanent id.

    A native job was given to its cluster directly; its script and environment are unknown. A native
    job that the portal found running has one attempt and never waits here. A native job that the
    portal starts has a `native_id`, which the cluster uses for every attempt.

    `array` and `array_index` are set for tasks of an array.

    `pools` holds pool ids, most preferred first, if the job accepts several pools. Then `pool` is
    the pool of its latest start, or before its first start the most preferred one.

    An elastic job starts with at least `node_count_min` and at most `node_count` nodes. Its attempt
    says how many it was granted. No job starts before its `begin_at`. A job that `is_singleton`
    waits for other jobs of its user and name (`jobs.queue.withholding`).

    `submitted_at` keeps a requeued job's place in the queue. `attempt_number` is that of the latest
    attempt, 0 before the first. Each node of the job must have all of `features`. `image` is its
    container image, None without one. All its nodes lie in one domain of the level
    `required_topology`, or if possible of `preferred_topology`. Each node gives it `cpus_per_node`
    and `memory_mib_per_node`; None means the share that comes with its GPUs.

    After a preemption or a fault the job is queued again if it `is_requeueable`. After an end in
    `requeue_on` ("time_limit", or an exit code as text) it is, too, at most `requeue_max` times.

    `launch` says where the script runs. The `script` of a manifest job is its manifest, as it was
    given. `ntasks`, `ntasks_per_node`, `cpus_per_task` and
    `gpus_per_task` are what a batch job says about the tasks that its script starts; None means
    that it says nothing. `arguments` follow the script on its command line. It starts in `folder`.
    Its output and errors go to files of these names, too (`connectors.protocol.JobFiles`).

    `explanation` says why
    it waits, as of the last cycle that changed it; `explained_at` is the time of that.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    team = models.ForeignKey(Node, models.PROTECT, related_name="jobs", db_index=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="jobs", db_index=False)
    name = models.CharField(max_length=200)
    type = models.CharField(max_length=12, choices=JobType.choices)
    origin = models.CharField(
        max_length=6, choices=JobOrigin.choices, default=JobOrigin.PORTAL.value
    )
    # No query selects the jobs of a pool, a cluster or a priority class alone, except queued jobs,
    # and except a removal, which may scan all rows. Every start writes every index, so these
    # columns have none.
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="jobs", db_index=False)
    pools = ArrayField(models.UUIDField(), default=list)
    priority_class = models.ForeignKey(
        PriorityClass, models.PROTECT, related_name="jobs", db_index=False
    )
    cluster = models.ForeignKey(
        Cluster, models.PROTECT, null=True, related_name="pinned_jobs", db_index=False
    )
    array = models.ForeignKey(
        JobArray, models.PROTECT, null=True, related_name="tasks", db_index=False
    )
    array_index = models.IntegerField(null=True)
    native_id = models.CharField(max_length=200, null=True)
    mgpu_per_node = models.BigIntegerField()
    node_count = models.IntegerField()
    node_count_min = models.IntegerField(null=True)
    script = models.TextField()
    environment = models.JSONField(default=dict)
    notes = models.JSONField(default=list)
    features = ArrayField(models.CharField(max_length=64), default=list)
    image = models.CharField(max_length=512, null=True)
    required_topology = models.CharField(max_length=6, null=True)
    preferred_topology = models.CharField(max_length=6, null=True)
    cpus_per_node = models.IntegerField(null=True)
    memory_mib_per_node = models.BigIntegerField(null=True)
    time_limit_s = models.BigIntegerField(null=True)
    launch = models.CharField(max_length=8, choices=Launch.choices, default=Launch.PER_NODE.value)
    arguments = ArrayField(models.TextField(), default=list)
    folder = models.CharField(max_length=1024, null=True)
    output_file = models.CharField(max_length=1024, null=True)
    error_file = models.CharField(max_length=1024, null=True)
    appends_output = models.BooleanField(default=False)
    ntasks = models.IntegerField(null=True)
    ntasks_per_node = models.IntegerField(null=True)
    cpus_per_task = models.IntegerField(null=True)
    gpus_per_task = models.IntegerField(null=True)
    notice_signal = models.CharField(max_length=8, default="TERM")
    signal_ahead_s = models.IntegerField(null=True)
    signals_shell_only = models.BooleanField(default=False)
    checkpoint_path = models.CharField(max_length=1024, null=True)
    is_preemptible = models.BooleanField(default=False)
    is_requeueable = models.BooleanField(default=True)
    requeue_on = ArrayField(models.CharField(max_length=10), default=list)
    requeue_max = models.IntegerField(default=REQUEUES_DEFAULT)
    cost_cap_nano = models.BigIntegerField(null=True)
    state = models.CharField(max_length=10, choices=JobState.choices)
    submitted_at = models.DateTimeField()
    begin_at = models.DateTimeField(null=True)
    is_singleton = models.BooleanField(default=False)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=40, null=True)
    exit_code = models.IntegerField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    attempt_number = models.IntegerField(default=0)
    explanation = models.JSONField(null=True)
    explained_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in JobState]), name="job_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(mgpu_per_node__gte=1, mgpu_per_node__lte=MGPU_MAX),
                name="job_asks_for_gpus",
            ),
            models.CheckConstraint(
                condition=Q(node_count__gte=1, node_count__lte=100_000), name="job_asks_for_nodes"
            ),
            models.CheckConstraint(
                condition=Q(node_count_min=None)
                | Q(node_count_min__gte=1, node_count_min__lt=F("node_count")),
                name="elastic_job_is_content_with_fewer_nodes",
            ),
            models.CheckConstraint(
                condition=Q(features__len__lte=16), name="job_asks_for_16_features_at_most"
            ),
            models.CheckConstraint(
                condition=Q(pools__len=0) | Q(pools__len__gte=2, pools__len__lte=POOLS_MAX),
                name="job_accepts_a_few_pools_or_one",
            ),
            models.CheckConstraint(
                condition=Q(image=None) | Q(image__regex=r"\A[!-~]+\Z"),
                name="job_image_is_one_word",
            ),
            models.CheckConstraint(
                condition=Q(required_topology=None)
                | Q(required_topology__in=TOPOLOGIES, preferred_topology=None),
                name="job_requires_a_known_topology_or_prefers_one",
            ),
            models.CheckConstraint(
                condition=Q(preferred_topology=None) | Q(preferred_topology__in=TOPOLOGIES),
                name="job_prefers_a_known_topology",
            ),
            models.CheckConstraint(
                condition=Q(cpus_per_node=None)
                | Q(cpus_per_node__gte=1, cpus_per_node__lte=CPUS_PER_NODE_MAX),
                name="job_asks_for_some_cpus_or_leaves_them",
            ),
            models.CheckConstraint(
                condition=Q(memory_mib_per_node=None)
                | Q(memory_mib_per_node__gte=1, memory_mib_per_node__lte=MEMORY_MIB_PER_NODE_MAX),
                name="job_asks_for_some_memory_or_leaves_it",
            ),
            models.CheckConstraint(
                condition=Q(launch__in=[launch.value for launch in Launch]),
                name="job_launch_is_known",
            ),
            models.CheckConstraint(
                condition=Q(launch="batch")
                | Q(ntasks=None, ntasks_per_node=None, cpus_per_task=None, gpus_per_task=None),
                name="job_has_tasks_if_it_is_a_batch_job",
            ),
            models.CheckConstraint(
                condition=Q(requeue_on__len__lte=REQUEUE_CAUSES_MAX),
                name="job_requeues_on_16_causes_at_most",
            ),
            models.CheckConstraint(
                condition=Q(requeue_max__gte=1, requeue_max__lte=REQUEUES_MAX),
                name="job_is_requeued_a_bounded_number_of_times",
            ),
            models.CheckConstraint(
                condition=Q(cost_cap_nano=None)
                | Q(cost_cap_nano__gte=1, cost_cap_nano__lte=COST_CAP_NANO_MAX),
                name="job_cost_cap_is_in_range",
            ),
            models.CheckConstraint(
                condition=Q(time_limit_s=None) | Q(time_limit_s__gte=1),
                name="job_time_limit_is_positive",
            ),
            models.CheckConstraint(
                condition=Q(signal_ahead_s=None)
                | Q(signal_ahead_s__gte=0, signal_ahead_s__lte=SIGNAL_AHEAD_S_MAX),
                name="job_notice_is_at_most_a_day_ahead",
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=["succeeded", "failed", "cancelled", "timed_out"],
                    ended_at__isnull=False,
                )
                | (
                    ~Q(state__in=["succeeded", "failed", "cancelled", "timed_out"])
                    & Q(ended_at=None)
                ),
                name="job_has_an_end_when_it_ended",
            ),
            models.CheckConstraint(
                condition=Q(origin="portal")
                | Q(origin="native", script="")
                & (
                    ~Q(state__in=["held", "queued"])
                    | Q(native_id__isnull=False, cluster__isnull=False)
                ),
                name="native_job_waits_only_where_we_start_it",
            ),
            models.CheckConstraint(
                condition=Q(native_id=None) | Q(origin="native"),
                name="job_of_the_portal_has_no_native_id",
            ),
            models.UniqueConstraint(
                fields=["array", "array_index"],
                name="job_is_one_task_of_its_array",
                condition=Q(array__isnull=False),
            ),
            models.CheckConstraint(
                condition=Q(array=None, array_index=None)
                | Q(
                    array__isnull=False,
                    array_index__isnull=False,
                    array_index__gte=0,
                    type="array",
                ),
                name="job_of_an_array_has_an_index",
            ),
        ]
        indexes = [
            models.Index(
                fields=["user"],
                name="job_singleton_waiting",
                condition=Q(is_singleton=True, state="queued"),
            ),
            models.Index(fields=["team", "-id"], name="job_by_team"),
            models.Index(fields=["user", "-id"], name="job_by_user"),
            models.Index(fields=["organization", "-id"], name="job_by_organization"),
            models.Index(
                fields=["id"],
                name="job_open",
                condition=Q(state__in=["held", "queued", "starting", "running", "preempting"]),
            ),
            models.Index(fields=["state", "-id"], name="job_by_state"),
            models.Index(
                fields=["organization", "-id"], name="job_native", condition=Q(origin="native")
            ),
            models.Index(
                fields=["cluster", "id"],
                name="job_native_open",
                condition=Q(
                    native_id__isnull=False,
                    state__in=["held", "queued", "starting", "running", "preempting"],
                ),
            ),
            models.Index(
                fields=["array", "id"],
                name="job_open_of_array",
                condition=Q(
                    array__isnull=False,
                    state__in=["held", "queued", "starting", "running", "preempting"],
                ),
            ),
            # For the queued jobs of deactivated users. A start writes nothing to it.
            models.Index(fields=["user"], name="job_queued_by_user", condition=Q(state="queued")),
            # For the queued jobs of an archived pool.
            models.Index(fields=["pool"], name="job_queued_by_pool", condition=Q(state="queued")),
            # For the queued jobs that are pinned to an archived cluster.
            models.Index(
                fields=["cluster"],
                name="job_queued_by_cluster",
                condition=Q(cluster__isnull=False, state="queued"),
            ),
            # Every cycle asks for these, among many queued jobs without a begin time.
            models.Index(
                fields=["begin_at"], name="job_begins_at", condition=Q(begin_at__isnull=False)
            ),
            # Jobs with an attempt that may have ended recently (`jobs.reading.recent_ends`).
            models.Index(
                fields=["team", "ended_at"],
                name="job_ended_by_team",
                condition=Q(attempt_number__gt=0),
            ),
            models.Index(
                fields=["user", "ended_at"],
                name="job_ended_by_user",
                condition=Q(attempt_number__gt=0),
            ),
            # For `name__icontains`, which compares in upper case.
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="job_by_part_of_name"),
            # For the orders of the list (`jobs.reading.job_orders`), written as there.
            models.Index(Upper("name"), F("id").desc(), name="job_by_name"),
            models.Index(
                functions.Coalesce("started_at", Value(datetime(1970, 1, 1, tzinfo=UTC))),
                "id",
                name="job_by_start",
            ),
            models.Index(
                functions.Coalesce("ended_at", Value(datetime(1970, 1, 1, tzinfo=UTC))),
                "id",
                name="job_by_end",
            ),
            models.Index(F("mgpu_per_node") * F("node_count"), "id", name="job_by_gpus"),
            models.Index(
                fields=["native_id"], name="job_by_native_id", condition=Q(native_id__isnull=False)
            ),
            # Pages show these four digits of an id, and people search for them.
            models.Index(
                functions.Right(Cast("id", models.TextField()), 4), name="job_by_end_of_id"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    @property
    def mgpu(self) -> int:
        """The total GPUs that the job asks for, in milli-GPU; for an elastic job the maximum."""
        return self.mgpu_per_node * self.node_count

    @property
    def pool_names(self) -> list[str]:
        """The names of the accepted pools, most preferred first.

        One query where there are several pools.
        """
        if not self.pools:
            return [self.pool.name]
        names = dict(Pool.objects.filter(pk__in=self.pools).values_list("pk", "name"))
        return [names[pk] for pk in self.pools]

    @property
    def least_node_count(self) -> int:
        """The smallest number of nodes with which the job may start."""
        return self.node_count if self.node_count_min is None else self.node_count_min


class Reclaim(models.Model):
    """A claim: GPUs that are being freed for `job` on slots of a cluster, by `grace_until`.

    The claim is stored with its victims before any victim is notified. A job has at most one open
    claim. `pool` is the pool of the slots if the job accepts several pools, else null.
    `closed_nodes` are as in `Attempt`.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    job = models.ForeignKey(Job, models.PROTECT, related_name="reclaims")
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, related_name="+")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    slots = models.JSONField()
    closed_nodes = models.JSONField(default=list, db_default=[])
    created_at = models.DateTimeField()
    grace_until = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job"], condition=Q(closed_at=None), name="job_has_one_open_reclaim"
            ),
        ]

    def __str__(self) -> str:
        return f"reclaim for {self.job_id}"


class HeldSubmission(models.Model):
    """The next attempt of a claim's job, submitted held during the grace of the victims.

    Held submissions exist only on clusters that hold submissions. They hold no GPUs and are never
    released themselves. The arbiter's start creates an attempt with the same id, and that attempt
    is released (`jobs.execution.held_submissions`). No other attempt of the job ever has the same
    number. `native_id` is written once, with the first answer. `refusal` says why no attempt may
    take the submission over.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    job = models.ForeignKey(Job, models.PROTECT, related_name="held_submissions", db_index=False)
    number = models.IntegerField()
    reclaim = models.OneToOneField(Reclaim, models.PROTECT, related_name="held_submission")
    cluster_user = models.CharField(max_length=32, null=True)
    native_id = models.CharField(max_length=200, null=True)
    refusal = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "number"], name="held_submission_number_once_per_job"
            ),
        ]

    def __str__(self) -> str:
        return f"held submission {self.number} of {self.job_id}"


class Extension(models.Model):
    """A longer time limit for a job that runs, from `before_s` to `limit_s` seconds.

    The attempt's cluster has it since `confirmed_at`. `refusal` says why the cluster never takes
    it; then the job has its earlier limit again.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    attempt = models.ForeignKey("Attempt", models.PROTECT, related_name="extensions")
    before_s = models.BigIntegerField()
    limit_s = models.BigIntegerField()
    asked_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)
    refusal = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(before_s__gte=1) & Q(limit_s__gt=F("before_s")),
                name="extension_makes_a_limit_longer",
            ),
            models.CheckConstraint(
                condition=Q(confirmed_at=None) | Q(refusal=""),
                name="extension_is_taken_or_refused",
            ),
        ]

    def __str__(self) -> str:
        return f"extension of {self.attempt_id} to {self.limit_s} s"


class AttemptState(models.TextChoices):
    """The states of an attempt: reserved (granted, not sent yet), then as the cluster reports."""

    RESERVED = "reserved"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class StopReason(models.TextChoices):
    """The reason for which the portal asked a cluster to end an attempt."""

    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    WITHDRAWN = "withdrawn"
    REQUEUED = "requeued"
    COST_CAP = "cost_cap"


def attempt_id(job_id: UUID, number: int) -> UUID:
    """Return the id of an attempt, which depends only on its job and number.

    So a database that was restored from a backup recognizes attempts on a cluster that it has
    forgotten. It never starts a second copy beside them.
    """
    return uuid5(job_id, f"attempt {number}")


class Attempt(models.Model):
    """One execution of a job on one cluster, which holds its GPUs until `released_at`.

    The cluster knows the attempt by `key`. `native_id` is written once, with the first recorded
    answer. `epoch` is that of the arbiter that granted it. `missed_listings` counts consecutive
    complete listings without it; `missing_since` is the time of the last one with it.

    `release_sent_at` is written before a held submission is first released. From then on the
    attempt may have run, and it is never sent again.

    The cluster knows a native job's attempt by `native_id`, the job's `submitted_at`, and
    `cluster_user`. Such an attempt counts from `granted_at`.

    `closed_nodes` are names of nodes of the cluster that the attempt must not get, because it would
    run into their maintenance.

    `checkpoint_at` is the time of the last known checkpoint. It never goes back (trigger
    `checkpoints_never_go_back`), and a job may report one before its start is observed.

    `was_held` is set by readers that ask for it: the attempt was submitted as a `HeldSubmission`
    before its start. So is `grace_s`, the seconds that it has after a notice.
    """

    was_held = False
    grace_s: int | None = None

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    job = models.ForeignKey(Job, models.PROTECT, related_name="attempts", db_index=False)
    number = models.IntegerField()
    # No query selects all attempts of a cluster, only those that hold GPUs.
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="attempts", db_index=False)
    slots = models.JSONField()
    closed_nodes = models.JSONField(default=list, db_default=[])
    mgpu = models.BigIntegerField()
    guaranteed_mgpu = models.BigIntegerField()
    state = models.CharField(max_length=8, choices=AttemptState.choices)
    epoch = models.BigIntegerField()
    granted_at = models.DateTimeField()
    native_id = models.CharField(max_length=200, null=True)
    native_state = models.CharField(max_length=100, blank=True)
    cluster_user = models.CharField(max_length=32, null=True)
    release_sent_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    checkpoint_at = models.DateTimeField(null=True)
    stop_reason = models.CharField(max_length=9, choices=StopReason.choices, null=True)
    reclaim = models.ForeignKey(
        Reclaim, models.PROTECT, null=True, related_name="victims", db_index=False
    )
    notice_at = models.DateTimeField(null=True)
    grace_until = models.DateTimeField(null=True)
    forced_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=12, null=True)
    exit_codes = models.JSONField(default=dict)
    message = models.TextField(blank=True)
    missed_listings = models.IntegerField(default=0)
    missing_since = models.DateTimeField(null=True)
    forgotten_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="attempt_number_once_per_job"),
            models.UniqueConstraint(
                fields=["job"],
                condition=Q(released_at=None),
                name="job_has_one_attempt_that_holds_gpus",
            ),
            models.CheckConstraint(
                condition=Q(state="ended", ended_at__isnull=False)
                | (~Q(state="ended") & Q(ended_at=None, released_at=None)),
                name="attempt_ends_before_it_releases",
            ),
            models.CheckConstraint(
                condition=Q(guaranteed_mgpu__gte=0, guaranteed_mgpu__lte=F("mgpu")),
                name="attempt_guarantee_is_part_of_it",
            ),
            models.CheckConstraint(
                condition=~Q(state="stopping") | Q(grace_until__isnull=False),
                name="attempt_is_stopped_with_a_deadline",
            ),
            models.CheckConstraint(
                condition=Q(checkpoint_at=None)
                | Q(started_at=None)
                | Q(checkpoint_at__gte=F("started_at")),
                name="attempt_has_checkpoints_since_its_start",
            ),
        ]
        indexes = [
            models.Index(
                fields=["cluster"], name="attempt_holding_gpus", condition=Q(released_at=None)
            ),
            models.Index(
                fields=["reclaim"], name="attempt_taken_back", condition=Q(reclaim__isnull=False)
            ),
            models.Index(
                fields=["released_at"],
                name="attempt_not_started",
                condition=Q(outcome="not_started"),
            ),
            # People search for the id that their cluster shows.
            models.Index(
                fields=["native_id"],
                name="attempt_by_native_id",
                condition=Q(native_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job_id}"

    @property
    def ranks(self) -> int:
        """The number of runs of its script, or of Pods of its manifest; each has a log."""
        if self.job.launch == Launch.MANIFEST:
            job = read_manifest(self.job.script).job
            return len(self.slots) if job is None else job.ranks
        return 1 if self.job.launch == Launch.BATCH else len(self.slots)

    @property
    def key(self) -> str:
        """The cluster's name for this attempt, unique for ever."""
        return f"tg-{self.id}"


class JobEvent(models.Model):
    """One line of a job's timeline. Append-only."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, models.PROTECT, related_name="events", db_index=False)
    at = models.DateTimeField()
    event = models.CharField(max_length=40)
    detail = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["job", "id"], name="job_event_by_job")]

    def __str__(self) -> str:
        return f"{self.event} of {self.job_id}"


class JobReason(models.Model):
    """The reason for which a job waits or waited from `since` on.

    `document` is the explanation at that moment. The lines of a job are numbered. Only the latest
    lines of a job stay (`jobs.queue.reason_lines`), and no line of a job that ended long ago
    (`jobs.execution.retention`).
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, models.PROTECT, related_name="reasons", db_index=False)
    number = models.IntegerField()
    since = models.DateTimeField()
    code = models.CharField(max_length=40)
    document = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="job_reason_number_once"),
        ]
        indexes = [BrinIndex(fields=["since"], name="job_reason_by_age")]

    def __str__(self) -> str:
        return f"{self.code} of {self.job_id} since {self.since:%Y-%m-%dT%H:%M:%SZ}"


class StartExpectation(models.Model):
    """The time by which a queued job was last said to start: by its first estimate or a notice."""

    job = models.OneToOneField(
        Job, models.CASCADE, primary_key=True, related_name="start_expectation"
    )
    expected_by = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.job_id} by {self.expected_by:%Y-%m-%dT%H:%M:%SZ}"


class Condition(models.TextChoices):
    """The required end of a predecessor. A requeued job has not ended.

    `failed` is any end without success, as Slurm's `afternotok`.
    """

    SUCCEEDED = "succeeded"
    ENDED = "ended"
    FAILED = "failed"


class Dependency(models.Model):
    """A condition on a predecessor, or on all tasks of an array, before `job` may start.

    The arbiter is not offered `job` before the condition is met. For an array, `failed` means that
    the array has ended, and not all tasks with success.

    Dependencies are created together with their job, and none is added later.
    `jobs.queue.dependencies` closes each as met or as impossible; if it is impossible, the job
    ends. `is_met` is null while undecided, also if the dependency was closed because its job ended
    for another reason.
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, models.PROTECT, related_name="dependencies", db_index=False)
    predecessor = models.ForeignKey(
        Job, models.PROTECT, null=True, related_name="+", db_index=False
    )
    array = models.ForeignKey(JobArray, models.PROTECT, null=True, related_name="+", db_index=False)
    condition = models.CharField(max_length=9, choices=Condition.choices)
    closed_at = models.DateTimeField(null=True)
    is_met = models.BooleanField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "predecessor"], name="dependency_named_once_per_job"
            ),
            models.UniqueConstraint(
                fields=["job", "array"],
                name="dependency_array_named_once_per_job",
                condition=Q(array__isnull=False),
            ),
            models.CheckConstraint(
                condition=Q(predecessor=None, array__isnull=False)
                | Q(predecessor__isnull=False, array=None),
                name="dependency_is_on_a_job_or_an_array",
            ),
            models.CheckConstraint(
                condition=~Q(job=F("predecessor")), name="dependency_is_on_another_job"
            ),
            models.CheckConstraint(
                condition=Q(condition__in=["succeeded", "ended", "failed"]),
                name="dependency_condition_is_known",
            ),
            models.CheckConstraint(
                condition=Q(is_met=None) | Q(closed_at__isnull=False),
                name="dependency_is_met_when_closed",
            ),
        ]
        indexes = [
            models.Index(fields=["job"], name="dependency_open", condition=Q(closed_at=None)),
            models.Index(
                fields=["predecessor"],
                name="dependency_open_on",
                condition=Q(closed_at=None),
            ),
            models.Index(
                fields=["array"],
                name="dependency_open_on_array",
                condition=Q(closed_at=None, array__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} waits until {self.predecessor_id or self.array_id} {self.condition}"


class Cycle(models.Model):
    """A cycle that decided something, with its whole input (`jobs.arbitration.recording`).

    The arrays name the jobs that it started, claimed GPUs for, stopped, and dropped the claim of.
    `body` is the output of `recording.pack` in `version` of the product; `size` is its length in
    bytes.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    decided_at = models.DateTimeField()
    epoch = models.BigIntegerField()
    version = models.CharField(max_length=40)
    started = ArrayField(models.UUIDField())
    claimed = ArrayField(models.UUIDField())
    stopped = ArrayField(models.UUIDField())
    dropped = ArrayField(models.UUIDField())
    size = models.IntegerField()
    body = models.BinaryField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(started__len__gte=1) | Q(claimed__len__gte=1) | Q(dropped__len__gte=1),
                name="cycle_decided_something",
            ),
        ]
        indexes = [
            models.Index(fields=["-decided_at", "-id"], name="cycle_by_time"),
            GinIndex(fields=["started", "claimed", "stopped", "dropped"], name="cycle_by_job"),
        ]

    def __str__(self) -> str:
        return f"cycle at {self.decided_at:%Y-%m-%dT%H:%M:%SZ}"


class Decision(models.Model):
    """One line for each job that a recorded cycle decided on (`jobs.reading.decision_list`).

    `guaranteed_mgpu` is the guaranteed part of a started or stopped job. `beneficiary`, `right` and
    `unsaved_s` belong to a stopped job. `victims` and `victims_mgpu` belong to a job that got a
    claim. `cycle` is the only foreign key that the database checks. The other rows named here are
    never deleted, and each check would slow every start.
    """

    id = models.BigAutoField(primary_key=True)
    cycle = models.ForeignKey(Cycle, models.CASCADE, related_name="lines")
    at = models.DateTimeField()
    kind = models.CharField(max_length=13, choices=[(kind, kind) for kind in DECISIONS])
    job = models.ForeignKey(
        Job, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    team = models.ForeignKey(
        Node, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    pool = models.ForeignKey(
        Pool, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    mgpu = models.BigIntegerField()
    guaranteed_mgpu = models.BigIntegerField(null=True)
    beneficiary = models.ForeignKey(
        Job, models.DO_NOTHING, null=True, related_name="+", db_constraint=False, db_index=False
    )
    right = models.CharField(
        max_length=14, null=True, choices=[(right.value, right.value) for right in Right]
    )
    unsaved_s = models.BigIntegerField(null=True)
    grace_until = models.DateTimeField(null=True)
    victims = models.IntegerField(default=0)
    victims_mgpu = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=DECISIONS),
                name="decision_is_known",
            ),
            models.CheckConstraint(
                condition=Q(kind="stopped", beneficiary__isnull=False, unsaved_s__isnull=False)
                | ~Q(kind="stopped") & Q(beneficiary=None, unsaved_s=None),
                name="decision_stops_a_job_for_another",
            ),
        ]
        indexes = [models.Index(fields=["team", "-id"], name="decision_by_team")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.job_id} at {self.at:%Y-%m-%dT%H:%M:%SZ}"


class Change(models.Model):
    """A change that the arbiter has to read, noted by a trigger in the changing transaction.

    It names a job. Without a job it means the nodes, the tree, quotas, priority classes or rules.
    The arbiter's leader deletes it after reading it (`jobs.arbitration.memory`).
    """

    id = models.BigAutoField(primary_key=True)
    #: PostgreSQL's transaction id.
    transaction = models.BigIntegerField()
    #: No foreign key, because the job may be deleted by now.
    job_id = models.UUIDField(null=True)

    class Meta:
        indexes = [models.Index(fields=["transaction"], name="change_by_transaction")]

    def __str__(self) -> str:
        return f"change of {self.job_id or 'what is around'}"


class Leadership(models.Model):
    """The leader of a role ("arbiter", "observer"), and the epoch that fences its writes.

    `backend_pid` is the recorded leader's own connection. A standby may end it when the leader's
    heartbeat is too old.
    """

    role = models.CharField(max_length=16, primary_key=True)
    epoch = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=200, blank=True)
    backend_pid = models.IntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.role} epoch {self.epoch}"


class Heartbeat(models.Model):
    """The time of the last heartbeat of a role's leader, by the database's clock.

    It has a row of its own because every fence locks the leadership's row in shared mode. A
    heartbeat that waited for a long write would depose a working leader.
    """

    role = models.CharField(max_length=16, primary_key=True)
    epoch = models.BigIntegerField()
    at = models.DateTimeField()
    worked_at = models.DateTimeField(
        null=True, help_text="When a leader last did its work: the arbiter, its last whole cycle"
    )

    def __str__(self) -> str:
        return f"{self.role} epoch {self.epoch} at {self.at:%Y-%m-%dT%H:%M:%SZ}"
