"""Pools, clusters and nodes, and what of them is healthy and since when."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeBoundary, RangeOperators
from django.db import models
from django.db.models import Func, Q
from uuid_utils.compat import uuid7


class Pool(models.Model):
    """GPUs of one kind that are interchangeable for quota; may have members in many clusters.

    `weight` is its worth against the reference GPU, per mille.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=63, unique=True)
    description = models.CharField(max_length=200, blank=True)
    weight = models.PositiveIntegerField(default=1000)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(name__regex=r"\A[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z"),
                name="pool_name_is_plain",
            ),
            models.CheckConstraint(condition=Q(weight__gte=1), name="pool_is_worth_something"),
        ]

    def __str__(self) -> str:
        return self.name


class Cluster(models.Model):
    """A place where jobs run: this machine, a Slurm installation or a Kubernetes cluster.

    `options` are the connector's. `seen_at` is when we last had its complete answer and
    `observed_at` what its own clock said then. `failing_since` is set while it does not answer;
    `message` says why, or what of its answer could not be used. A disabled cluster accepts no
    starts; what runs on it is still observed and metered.
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

    class Meta:
        constraints = [
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
    costs no writes).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=253)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="nodes")
    capacity_mgpu = models.PositiveBigIntegerField()
    is_schedulable = models.BooleanField()
    state = models.CharField(max_length=100)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "name", "pool"], name="cluster_node_once_per_pool"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name}"


class CapacitySegment(models.Model):
    """Healthy capacity of a pool on a cluster over `[start, end)`; an empty end is "until now".

    Appended by observation whenever the capacity changes, so that idle GPU-seconds can be
    told from unknown ones.
    """

    id = models.BigAutoField(primary_key=True)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+")
    capacity_mgpu = models.PositiveBigIntegerField()
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
