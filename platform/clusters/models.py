"""Pools, clusters and nodes, and what of them is healthy and since when."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeBoundary, RangeOperators
from django.db import models
from django.db.models import Func, Q
from uuid_utils.compat import uuid7

from primitives.units import DeviceKind


class Pool(models.Model):
    """Devices of one kind that are interchangeable for quota; may have members in many clusters.

    They are GPUs, or CPU cores (`device`): then all that is named `mgpu` counts thousandths of
    cores. `weight` is the worth of one against the reference GPU, per mille. No node of an archived
    pool is schedulable, until it is restored.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=63, unique=True)
    description = models.CharField(max_length=200, blank=True)
    weight = models.PositiveIntegerField(default=1000)
    device = models.CharField(
        max_length=3,
        choices=[(kind.value, kind.plural) for kind in DeviceKind],
        default=DeviceKind.GPU.value,
    )
    archived_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(device__in=[kind.value for kind in DeviceKind]),
                name="pool_has_known_devices",
            ),
            models.CheckConstraint(
                condition=Q(name__regex=r"\A[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z"),
                name="pool_name_is_plain",
            ),
            models.CheckConstraint(condition=Q(weight__gte=1), name="pool_is_worth_something"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def kind(self) -> DeviceKind:
        """What its devices are."""
        return DeviceKind(self.device)


class Cluster(models.Model):
    """A place where jobs run: this machine, a Slurm installation or a Kubernetes cluster.

    `options` are the connector's. `api_version` is what was last spoken with it, where there is
    more than one. `seen_at` is when we last had its complete answer and
    `observed_at` what its own clock said then. `failing_since` is set while it does not answer;
    `message` says why, or what of its answer could not be used. A disabled cluster accepts no
    starts; what runs on it is still observed and metered. An archived cluster is disabled and none
    of its nodes is schedulable, until it is restored. `outside` sums up what else is on it
    (see `clusters.outside`). `identity` is what it told of itself at first, and must go on to.
    `time_limits` are by the name of the pool the longest time limit there, in seconds; a pool that
    is not in it has none. `isolation` is how far it keeps jobs from the portal's machine and from
    each other, where they run there (`connectors.local.isolation`).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=63, unique=True)
    kind = models.CharField(max_length=16)
    options = models.JSONField(default=dict)
    is_enabled = models.BooleanField(default=True)
    seen_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField(null=True)
    failing_since = models.DateTimeField(null=True)
    message = models.TextField(blank=True)
    outside = models.JSONField(default=dict)
    api_version = models.CharField(max_length=16, blank=True)
    identity = models.JSONField(default=dict)
    time_limits = models.JSONField(default=dict)
    isolation = models.CharField(max_length=16, blank=True)
    isolation_reason = models.CharField(max_length=500, blank=True)
    archived_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(archived_at=None) | Q(is_enabled=False),
                name="cluster_that_is_archived_is_disabled",
            ),
            models.CheckConstraint(
                condition=Q(name__regex=r"\A[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z"),
                name="cluster_name_is_plain",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ClusterNode(models.Model):
    """One node of a cluster as last seen. It counts as capacity only while schedulable.

    A node that its cluster no longer lists stays, not schedulable, in state "gone" and with the
    `seen_at` of the last answer that had it. For all others `seen_at` is when the row last
    changed; the cluster's `seen_at` is when it was last confirmed (so that an unchanged fleet
    costs no writes). `outside_mgpu` of it are held by workloads that nobody here knows. `domains`
    are by level the block, rack and NVLink domain that it is in, where its cluster says so.
    `cpu_milli` and `memory_mib` are what workloads may have of it in all, None where nobody knows,
    and those `per_gpu` what a job gets with each GPU that does not say what it wants.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=253)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="nodes")
    capacity_mgpu = models.PositiveBigIntegerField()
    outside_mgpu = models.PositiveBigIntegerField(default=0)
    is_schedulable = models.BooleanField()
    state = models.CharField(max_length=100)
    reason = models.CharField(max_length=300, blank=True)
    features = models.JSONField(default=list)
    domains = models.JSONField(default=dict)
    cpu_milli = models.PositiveBigIntegerField(null=True)
    memory_mib = models.PositiveBigIntegerField(null=True)
    cpu_milli_per_gpu = models.PositiveBigIntegerField(default=0)
    memory_mib_per_gpu = models.PositiveBigIntegerField(default=0)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "name", "pool"], name="cluster_node_once_per_pool"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name}"


class NodeAction(models.TextChoices):
    """What a cluster may be asked to do with one of its nodes."""

    DRAIN = "drain"
    RESUME = "resume"


class NodeRequestState(models.TextChoices):
    """What became of a request: waiting, done, refused by the cluster, replaced by a later one for
    the same node, or given up because the cluster did not answer."""

    PENDING = "pending"
    DONE = "done"
    REFUSED = "refused"
    REPLACED = "replaced"
    GIVEN_UP = "given_up"


class NodeRequest(models.Model):
    """That somebody asked to drain or resume a node, and what the cluster made of it.

    What the cluster then says of the node is told by ClusterNode alone. `message` says why it was
    refused or given up, or what a drain still waits for. A drain with `evict_grace_s` also empties
    the node; what is no job of ours gets so many seconds at most.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    node = models.CharField(max_length=253)
    action = models.CharField(max_length=6, choices=NodeAction.choices)
    reason = models.CharField(max_length=200, blank=True)
    evict_grace_s = models.PositiveIntegerField(null=True)
    requested_by = models.CharField(max_length=127)
    requested_at = models.DateTimeField()
    state = models.CharField(
        max_length=8, choices=NodeRequestState.choices, default=NodeRequestState.PENDING
    )
    answered_at = models.DateTimeField(null=True)
    message = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "node"],
                condition=Q(state="pending"),
                name="node_waits_for_one_request",
            ),
            models.CheckConstraint(
                condition=Q(state="pending", answered_at=None)
                | (~Q(state="pending") & Q(answered_at__isnull=False)),
                name="node_request_is_answered_once",
            ),
            models.CheckConstraint(
                condition=Q(evict_grace_s=None)
                | Q(action="drain", evict_grace_s__gte=1, evict_grace_s__lte=3_600),
                name="only_a_drain_evicts_within_an_hour",
            ),
        ]
        indexes = [
            models.Index(fields=["cluster", "node", "-requested_at"], name="node_request_latest"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.node} on {self.cluster}"


class CapacitySegment(models.Model):
    """Healthy capacity of a pool on a cluster over `[start, end)`; an empty end is "until now".

    `outside_mgpu` of it were held by workloads that nobody here knows: neither in use nor idle.
    Appended by observation whenever one of both changes, so that idle GPU-seconds can be told
    from unknown ones.
    """

    id = models.BigAutoField(primary_key=True)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+")
    capacity_mgpu = models.PositiveBigIntegerField()
    outside_mgpu = models.PositiveBigIntegerField(default=0)
    start = models.DateTimeField()
    end = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            ExclusionConstraint(
                name="capacity_known_once_at_a_time",
                expressions=[
                    ("cluster", RangeOperators.EQUAL),
                    ("pool", RangeOperators.EQUAL),
                    (
                        Func(
                            "start",
                            "end",
                            RangeBoundary(),
                            function="TSTZRANGE",
                        ),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool} on {self.cluster} from {self.start:%Y-%m-%dT%H:%M:%SZ}"
