"""Pools, clusters and nodes, with their healthy capacity over time."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeBoundary, RangeOperators
from django.db import models
from django.db.models import Func, Q
from uuid_utils.compat import uuid7

from primitives.units import DeviceKind


class Pool(models.Model):
    """Devices of one kind that are interchangeable for quota; may have members in many clusters.

    The devices are GPUs, or CPU cores (`device`); for cores, every `mgpu` counts thousandths of a
    core. `weight` is the value of one device relative to the reference GPU, per mille. No node of
    an archived pool is schedulable until the pool is restored.
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
        """The kind of its devices."""
        return DeviceKind(self.device)


class PoolAlias(models.Model):
    """Another name of a pool, by which jobs may ask for it; `folded` as `pool_names.folded` says.

    No two pools have the same one.
    """

    folded = models.CharField(max_length=63, primary_key=True)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="aliases")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(folded__regex=r"\A[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z"),
                name="pool_alias_is_folded",
            ),
        ]

    def __str__(self) -> str:
        return self.folded


class Cluster(models.Model):
    """A place where jobs run: this machine, a Slurm installation or a Kubernetes cluster.

    - `options` are the connector's. `api_version` is the last API version in use, where there are
      several.
    - `seen_at` is the time of its last complete answer, and `observed_at` the time of its own clock
      then.
    - `failing_since` is set while it does not answer. `message` says why, or which part of its
      answer could not be used.
    - A disabled cluster accepts no starts; what runs on it is still observed and metered.
    - An archived cluster is disabled, and none of its nodes is schedulable until it is restored.
    - `outside` is a summary of other work on it (see `clusters.outside`).
    - `identity` is the identity that it reported first and must keep.
    - `time_limits` are the longest time limits in seconds by name of the pool. A pool that is
      missing has none.
    - `isolation` is how strictly it separates jobs from the portal's machine and from each other,
      if they run there (`connectors.local.isolation`).
    - `portal_refusal` is why its jobs get no token for the portal, as far as only the cluster can
      say.
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
    portal_refusal = models.CharField(max_length=500, blank=True)
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
    `seen_at` of the last answer that had it. For all other nodes, `seen_at` is when the row last
    changed. The cluster's `seen_at` is the last confirmation of these, so that an unchanged fleet
    costs no writes.

    `outside_mgpu` is held by workloads that are unknown to the portal. `domains` are by level the
    block, rack and NVLink domain of the node, as far as its cluster reports them. `cpu_milli` and
    `memory_mib` are the total for workloads, or None if unknown. `cpu_milli_per_gpu` and
    `memory_mib_per_gpu` are for jobs that do not ask for an amount.
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
    """A requested change of one of a cluster's nodes."""

    DRAIN = "drain"
    RESUME = "resume"


class NodeRequestState(models.TextChoices):
    """The state of a request to change a node.

    It is waiting, done, refused by the cluster, replaced by a later request for the same node, or
    given up because the cluster did not answer.
    """

    PENDING = "pending"
    DONE = "done"
    REFUSED = "refused"
    REPLACED = "replaced"
    GIVEN_UP = "given_up"


class NodeRequest(models.Model):
    """A request to drain or resume a node, and its result.

    Only ClusterNode has the node's state as the cluster reports it. `message` says why the request
    was refused or given up, or what a drain still waits for. A drain with `evict_grace_s` also
    empties the node: work other than our jobs gets at most so many seconds.
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

    `outside_mgpu` of it was held by workloads unknown to the portal: neither in use nor idle.
    Observation appends a segment whenever one of both changes, so that idle GPU-seconds can be
    distinguished from unknown ones.
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
