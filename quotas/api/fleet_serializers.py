"""Shapes of pools, clusters and their nodes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from rest_framework import serializers

from clusters.models import Cluster, Pool
from clusters.outside import Stranger
from clusters.queries import Share, State, state_of
from clusters.registration import DEFAULT_WEIGHTS
from connectors.registry import KINDS, kind_named
from outbox.models import Quarantine
from primitives.clock import SystemClock
from primitives.units import DeviceKind
from quotas.fleet import (
    PoolRow,
    cluster_message,
    may_manage_clusters,
    outside_use,
    pool_rows,
)
from quotas.pushes import keeps_limits
from quotas.user_numbers import isolation_of
from tenants.access import Actor
from webapi.serializers import (
    DEVICE_HELP,
    DEVICES,
    StrictSerializer,
    TextField,
    WholeNumberField,
    YesOrNoField,
)

WEIGHT_MAX = 1_000_000
OPTIONS_HELP = "The connector's; never shown again where they hold a secret"
_POOL_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
_CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)


class PoolSerializer(serializers.Serializer[Any]):
    """Devices of one kind that are interchangeable for quota: GPUs, or CPU cores."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    description = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    weight = serializers.IntegerField(
        help_text="Worth of one device against the reference GPU, per mille"
    )
    archived_at = serializers.DateTimeField(
        allow_null=True, help_text="Since when nothing starts in it and its capacity counts no more"
    )
    capacity_mgpu = serializers.IntegerField(
        help_text="Healthy as last seen, on all enabled clusters"
    )
    capacity_as_of = serializers.DateTimeField(
        allow_null=True,
        help_text="When the first of its clusters to stop answering was last seen; null while all "
        "answer",
    )
    guaranteed_mgpu = serializers.IntegerField(
        allow_null=True, help_text="To all organizations; null unless you administer the platform"
    )
    is_overcommitted = serializers.BooleanField(
        help_text="Whether more is guaranteed to organizations than is healthy now"
    )
    features = serializers.ListField(
        child=serializers.CharField(), help_text="What its nodes have, for jobs to ask for"
    )

    def to_representation(self, instance: PoolRow) -> dict[str, Any]:
        """The row as JSON."""
        pool = instance.pool
        return super().to_representation(
            {
                "id": pool.pk,
                "name": pool.name,
                "description": pool.description,
                "device": pool.device,
                "weight": pool.weight,
                "archived_at": pool.archived_at,
                "capacity_mgpu": instance.capacity_mgpu,
                "capacity_as_of": instance.capacity_as_of,
                "guaranteed_mgpu": instance.guaranteed_mgpu,
                "features": instance.features,
                "is_overcommitted": instance.is_overcommitted,
            }
        )


def shown_pool(pool: Pool, *, actor: Actor) -> dict[str, Any]:
    """The pool as the API answers it to `actor` now."""
    (row,) = pool_rows(actor, [pool], now=SystemClock().now())
    return dict(PoolSerializer(row).data)


class PoolUpdateSerializer(StrictSerializer):
    """What to change of a pool; what is left out stays."""

    description = TextField(max_length=200, allow_blank=True, required=False)
    weight = WholeNumberField(
        min_value=1,
        max_value=WEIGHT_MAX,
        required=False,
        help_text="Worth of one device against the reference GPU, per mille; of a new pool "
        + ", ".join(f"{worth} for {kind.plural}" for kind, worth in DEFAULT_WEIGHTS.items())
        + " where it is left out",
    )
    device = serializers.ChoiceField(
        choices=DEVICES,
        required=False,
        help_text="Of a new pool gpu where it is left out; stays once nodes, quotas or jobs use it",
    )

    def validate_device(self, device: str) -> DeviceKind:
        """What was checked to be one."""
        return DeviceKind(device)


class PoolCreateSerializer(PoolUpdateSerializer):
    """A new pool. Clusters report their nodes under its name."""

    name = TextField(max_length=63)

    def validate_name(self, name: str) -> str:
        """Raises ValidationError unless the name is plain."""
        return _plain(name, _POOL_NAME, "lower-case letters, digits, '-' and '.'")


class ClusterPoolSerializer(serializers.Serializer[Any]):
    """What a cluster has of one pool."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    capacity_mgpu = serializers.IntegerField()
    healthy_mgpu = serializers.IntegerField(help_text="On schedulable nodes")
    outside_mgpu = serializers.IntegerField(
        help_text="Healthy ones held by workloads that belong to no team: neither offered nor idle"
    )
    nodes = serializers.IntegerField()
    nodes_healthy = serializers.IntegerField()


class OutsideHolderSerializer(serializers.Serializer[Any]):
    """What somebody holds of one pool without counting for a team, by the cluster's names."""

    account = serializers.CharField()
    user = serializers.CharField()
    pool = serializers.CharField()
    reason = serializers.ChoiceField(choices=[(reason.value, reason.name) for reason in Stranger])
    mgpu = serializers.IntegerField()
    workloads = serializers.IntegerField()


class OutsideSerializer(serializers.Serializer[Any]):
    """Workloads that were given to the cluster beside the portal, as last listed."""

    running = serializers.IntegerField(help_text="Those that belong to no team")
    running_mgpu = serializers.IntegerField(help_text="What they hold")
    pending = serializers.IntegerField(
        help_text="Those that wait for the cluster's own scheduler, whosever they are"
    )
    pending_mgpu = serializers.IntegerField()
    holders = OutsideHolderSerializer(
        many=True, allow_null=True, help_text="Largest first; null unless you manage clusters"
    )


class DefaultImageSerializer(serializers.Serializer[Any]):
    """In which container image jobs of a pool run that name none."""

    pool = serializers.CharField()
    image = serializers.CharField(allow_null=True, help_text="null: they must name one")


class ClusterSerializer(serializers.Serializer[Any]):
    """A place where jobs run, as last seen."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.CharField()
    kind_label = serializers.CharField(help_text="The name of the kind, as people read it")
    has_users = serializers.BooleanField(
        help_text="Whether jobs run as users of the cluster, who must be mapped first"
    )
    keeps_limits = serializers.BooleanField(
        help_text="Whether the cluster keeps limits of its own, to which quotas are pushed"
    )
    is_enabled = serializers.BooleanField(help_text="Disabled: no new starts, what runs goes on")
    archived_at = serializers.DateTimeField(
        allow_null=True, help_text="Since when nothing starts there and its capacity counts no more"
    )
    state = serializers.ChoiceField(choices=[(state.value, state.name) for state in State])
    seen_at = serializers.DateTimeField(
        allow_null=True, help_text="Last complete answer: `pools` and nodes are as of then"
    )
    stale_after_s = serializers.IntegerField(
        help_text="Age of the last answer from which the cluster counts as unreachable"
    )
    message = serializers.CharField(
        help_text="Why it does not answer, or what of its answer could not be used; in the "
        "cluster's own words only for those who may manage clusters"
    )
    api_version = serializers.CharField(
        help_text="What was last spoken with it; empty where there is only one, or none yet"
    )
    isolation = serializers.CharField(
        help_text="How far jobs are kept from the portal and from each other, where they run on "
        "its own machine; empty elsewhere"
    )
    nodes_refusal = serializers.CharField(
        help_text="Why its nodes cannot be drained and resumed from here; empty when they can"
    )
    eviction_refusal = serializers.CharField(
        help_text="Why a drain cannot evict what runs on a node; empty when it can"
    )
    pools = ClusterPoolSerializer(many=True)
    outside = OutsideSerializer()
    runs_images = serializers.BooleanField(help_text="Whether jobs may name a container image")
    default_images = DefaultImageSerializer(
        many=True, help_text="Where every job runs in an image; empty elsewhere"
    )
    options = serializers.DictField(
        allow_null=True,
        help_text="The connector's, where they hold no secret; null unless you manage clusters",
    )


def shown_cluster(
    cluster: Cluster,
    shares: list[Share],
    *,
    actor: Actor,
    now: datetime,
    quarantine: Quarantine | None,
) -> dict[str, Any]:
    """A cluster as JSON, as the actor may see it."""
    stale_after = timedelta(seconds=settings.STALE_AFTER_S)
    kind = kind_named(cluster.kind)
    return dict(
        ClusterSerializer(
            {
                "id": cluster.pk,
                "name": cluster.name,
                "kind": cluster.kind,
                "kind_label": kind.label,
                "has_users": kind.has_users,
                "keeps_limits": keeps_limits(cluster),
                "is_enabled": cluster.is_enabled,
                "archived_at": cluster.archived_at,
                "state": state_of(cluster, now=now, stale_after=stale_after).value,
                "seen_at": cluster.seen_at,
                "stale_after_s": settings.STALE_AFTER_S,
                "message": cluster_message(actor, cluster, quarantine),
                "api_version": cluster.api_version,
                "isolation": isolation_of(cluster),
                "nodes_refusal": kind.nodes_refusal(cluster.api_version),
                "eviction_refusal": kind.eviction_refusal,
                "pools": shares,
                "outside": outside_use(actor, cluster),
                "runs_images": kind.runs_images(cluster.options),
                "default_images": [
                    {"pool": pool, "image": image}
                    for pool, image in sorted(kind.default_images(cluster.options).items())
                ],
                "options": cluster.options if _may_read_options(actor, cluster) else None,
            }
        ).data
    )


def _may_read_options(actor: Actor, cluster: Cluster) -> bool:
    return kind_named(cluster.kind).shows_options and may_manage_clusters(actor)


class ClusterUpdateSerializer(StrictSerializer):
    """What to change of a cluster; `options` are replaced whole."""

    is_enabled = YesOrNoField(required=False)
    options = serializers.DictField(required=False, help_text=OPTIONS_HELP)


class _KindField(serializers.ChoiceField):
    """A kind of cluster that is registered when the request arrives."""

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=sorted(KINDS), **options)


class ClusterCreateSerializer(StrictSerializer):
    """A new cluster."""

    name = TextField(max_length=63)
    kind = _KindField()
    options = serializers.DictField(help_text=OPTIONS_HELP)
    is_enabled = YesOrNoField(required=False, default=True)

    def validate_name(self, name: str) -> str:
        """Raises ValidationError unless the name is plain."""
        return _plain(name, _CLUSTER_NAME, "lower-case letters, digits and '-'")


def _plain(name: str, form: re.Pattern[str], allowed: str) -> str:
    if form.fullmatch(name) is None:
        raise serializers.ValidationError(
            f"must be {allowed}, with a letter or digit first and last"
        )
    return name
