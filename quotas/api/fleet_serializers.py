"""Shapes of pools and clusters."""

from __future__ import annotations

import re
from dataclasses import asdict
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
OPTIONS_HELP = "Options of the connector; never shown again if they hold a secret"
_POOL_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
_CLUSTER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)


class PoolSerializer(serializers.Serializer[Any]):
    """A pool of devices of one kind (GPUs or CPU cores) that are interchangeable for quota."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    description = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    weight = serializers.IntegerField(
        help_text="Worth of one device relative to the reference GPU, per mille"
    )
    archived_at = serializers.DateTimeField(
        allow_null=True, help_text="Since then, nothing starts in it and its capacity is ignored"
    )
    aliases = serializers.ListField(
        child=serializers.CharField(), help_text="Other names by which jobs may ask for it"
    )
    capacity_mgpu = serializers.IntegerField(
        help_text="Last seen healthy capacity on all enabled clusters"
    )
    capacity_as_of = serializers.DateTimeField(
        allow_null=True,
        help_text="Oldest answer behind the capacity, if a cluster does not answer; null while all "
        "answer",
    )
    guaranteed_mgpu = serializers.IntegerField(
        allow_null=True,
        help_text="Sum over all organizations; null unless you administer the platform",
    )
    is_overcommitted = serializers.BooleanField(
        help_text="Whether guarantees of organizations exceed the healthy capacity"
    )
    features = serializers.ListField(
        child=serializers.CharField(), help_text="Features of its nodes that jobs may require"
    )

    def to_representation(self, instance: PoolRow) -> dict[str, Any]:
        """Return the row as JSON."""
        pool = instance.pool
        return super().to_representation(
            {
                "id": pool.pk,
                "name": pool.name,
                "description": pool.description,
                "device": pool.device,
                "weight": pool.weight,
                "archived_at": pool.archived_at,
                "aliases": sorted(alias.folded for alias in pool.aliases.all()),
                "capacity_mgpu": instance.capacity_mgpu,
                "capacity_as_of": instance.capacity_as_of,
                "guaranteed_mgpu": instance.guaranteed_mgpu,
                "features": instance.features,
                "is_overcommitted": instance.is_overcommitted,
            }
        )


def shown_pool(pool: Pool, *, actor: Actor) -> dict[str, Any]:
    """Return the pool's answer for `actor`."""
    (row,) = pool_rows(actor, [pool], now=SystemClock().now())
    return dict(PoolSerializer(row).data)


class PoolUpdateSerializer(StrictSerializer):
    """The settings of a pool to change. Missing settings stay."""

    description = TextField(max_length=200, allow_blank=True, required=False)
    weight = WholeNumberField(
        min_value=1,
        max_value=WEIGHT_MAX,
        required=False,
        help_text="Worth of one device relative to the reference GPU, per mille. Default for a new "
        "pool: "
        + ", ".join(f"{worth} for {kind.plural}" for kind, worth in DEFAULT_WEIGHTS.items()),
    )
    device = serializers.ChoiceField(
        choices=DEVICES,
        required=False,
        help_text="Default for a new pool: gpu. Fixed once nodes, quotas or jobs use the pool",
    )

    aliases = serializers.ListField(
        child=TextField(max_length=63),
        max_length=20,
        required=False,
        help_text="Other names of its GPUs, such as nvidia_h100_80gb_hbm3, by which jobs may ask "
        "for it. Case does not matter, and _ is -. They replace all others",
    )

    def validate_device(self, device: str) -> DeviceKind:
        """Return the validated kind."""
        return DeviceKind(device)


class PoolCreateSerializer(PoolUpdateSerializer):
    """A new pool. Clusters report their nodes under its name."""

    name = TextField(max_length=63)

    def validate_name(self, name: str) -> str:
        """Return the name. Raises ValidationError unless it is plain."""
        return _plain(name, _POOL_NAME, "lower-case letters, digits, '-' and '.'")


class ClusterPoolSerializer(serializers.Serializer[Any]):
    """The part of a pool on one cluster."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    capacity_mgpu = serializers.IntegerField()
    healthy_mgpu = serializers.IntegerField(help_text="Capacity of schedulable nodes")
    outside_mgpu = serializers.IntegerField(
        help_text="Healthy capacity used by workloads of no team: neither available nor idle"
    )
    nodes = serializers.IntegerField()
    nodes_healthy = serializers.IntegerField()


class OutsideHolderSerializer(serializers.Serializer[Any]):
    """Use of one pool by a user of the cluster that counts for no team, by the cluster's names."""

    account = serializers.CharField()
    user = serializers.CharField()
    pool = serializers.CharField()
    reason = serializers.ChoiceField(choices=[(reason.value, reason.name) for reason in Stranger])
    mgpu = serializers.IntegerField()
    workloads = serializers.IntegerField()


class OutsideSerializer(serializers.Serializer[Any]):
    """Workloads submitted directly to the cluster, as last listed."""

    running = serializers.IntegerField(help_text="Number of workloads of no team")
    running_mgpu = serializers.IntegerField(help_text="Their use")
    pending = serializers.IntegerField(
        help_text="Number of workloads that wait for the cluster's own scheduler, of any user"
    )
    pending_mgpu = serializers.IntegerField()
    holders = OutsideHolderSerializer(
        many=True, allow_null=True, help_text="Largest first; null unless you manage clusters"
    )


class DefaultImageSerializer(serializers.Serializer[Any]):
    """The container image of jobs in a pool that name none."""

    pool = serializers.CharField()
    image = serializers.CharField(allow_null=True, help_text="null: jobs must name one")


class ClusterWordsSerializer(serializers.Serializer[Any]):
    """The words of a cluster's own system for what pages show of it."""

    variant = serializers.CharField(
        help_text="Scheduler and mode, if its kind has several; empty unless you manage clusters"
    )
    account = serializers.CharField(help_text="Heading of the accounts in `outside`")
    unknown_account = serializers.CharField(help_text="Meaning of that reason in `outside`")
    unknown_user = serializers.CharField(help_text="Meaning of that reason in `outside`")
    limits = serializers.CharField(help_text="How the cluster enforces quotas; in sentences")
    limit_objects = serializers.CharField(help_text="Objects that a push of quotas changes")
    subjects = serializers.DictField(
        child=serializers.CharField(),
        help_text="Kind of object, by the first words of a `subject` in comparisons of quotas",
    )


class ClusterKindSerializer(serializers.Serializer[Any]):
    """A kind of cluster."""

    name = serializers.CharField()
    title = serializers.CharField(source="label", help_text="Name for people")
    options_schema = serializers.DictField(
        help_text="JSON Schema of the options. `x-when` gives the values of another option for "
        "which an option applies, `x-needed` marks it as required then, and `x-more` as rarely "
        "changed"
    )


class ClusterSerializer(serializers.Serializer[Any]):
    """A cluster, as last seen."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.CharField()
    kind_label = serializers.CharField(help_text="Name of the kind for people")
    words = ClusterWordsSerializer()
    has_users = serializers.BooleanField(
        help_text="Whether jobs run as users of the cluster, which must be mapped first"
    )
    keeps_limits = serializers.BooleanField(
        help_text="Whether the cluster has limits of its own, to which quotas are pushed"
    )
    is_enabled = serializers.BooleanField(help_text="false: no new starts; running jobs continue")
    archived_at = serializers.DateTimeField(
        allow_null=True, help_text="Since then, nothing starts there and its capacity is ignored"
    )
    state = serializers.ChoiceField(choices=[(state.value, state.name) for state in State])
    seen_at = serializers.DateTimeField(
        allow_null=True, help_text="Time of the last complete answer, and of `pools` and nodes"
    )
    stale_after_s = serializers.IntegerField(
        help_text="Age of the last answer from which the cluster counts as unreachable"
    )
    message = serializers.CharField(
        help_text="Why it does not answer, or which part of its answer was not usable. Users who "
        "manage clusters see the cluster's own message"
    )
    api_version = serializers.CharField(
        help_text="Last version in use; empty if there is only one, or none yet"
    )
    isolation = serializers.CharField(
        help_text="How well jobs are isolated from the portal and each other, if they run on the "
        "portal's machine; else empty"
    )
    nodes_refusal = serializers.CharField(
        help_text="Why its nodes cannot be drained and resumed here; empty if they can"
    )
    eviction_refusal = serializers.CharField(
        help_text="Why a drain cannot evict workloads from a node; empty if it can"
    )
    pools = ClusterPoolSerializer(many=True)
    outside = OutsideSerializer()
    runs_images = serializers.BooleanField(help_text="Whether jobs may name a container image")
    default_images = DefaultImageSerializer(
        many=True, help_text="Images of pools if all jobs run in an image; else empty"
    )
    options = serializers.DictField(
        allow_null=True,
        help_text="Options of the connector without secrets; null unless you manage clusters",
    )


def shown_cluster(
    cluster: Cluster,
    shares: list[Share],
    *,
    actor: Actor,
    now: datetime,
    quarantine: Quarantine | None,
) -> dict[str, Any]:
    """Return a cluster as JSON, as the actor may see it."""
    stale_after = timedelta(seconds=settings.STALE_AFTER_S)
    kind = kind_named(cluster.kind)
    options = cluster.options if _may_read_options(actor, cluster) else None
    return dict(
        ClusterSerializer(
            {
                "id": cluster.pk,
                "name": cluster.name,
                "kind": cluster.kind,
                "kind_label": kind.label,
                "words": asdict(kind.words(cluster.options))
                | ({"variant": ""} if options is None else {}),
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
                "options": options,
            }
        ).data
    )


def _may_read_options(actor: Actor, cluster: Cluster) -> bool:
    return kind_named(cluster.kind).shows_options and may_manage_clusters(actor)


class ClusterUpdateSerializer(StrictSerializer):
    """The settings of a cluster to change. `options` are replaced as a whole."""

    is_enabled = YesOrNoField(required=False)
    options = serializers.DictField(required=False, help_text=OPTIONS_HELP)


class KindField(serializers.ChoiceField):
    """A kind of cluster that is registered when the request arrives."""

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=sorted(KINDS), **options)


class ClusterCreateSerializer(StrictSerializer):
    """A new cluster."""

    name = TextField(max_length=63)
    kind = KindField()
    options = serializers.DictField(help_text=OPTIONS_HELP)
    is_enabled = YesOrNoField(required=False, default=True)

    def validate_name(self, name: str) -> str:
        """Return the name. Raises ValidationError unless it is plain."""
        return _plain(name, _CLUSTER_NAME, "lower-case letters, digits and '-'")


def _plain(name: str, form: re.Pattern[str], allowed: str) -> str:
    if form.fullmatch(name) is None:
        raise serializers.ValidationError(
            f"must be {allowed}, with a letter or digit first and last"
        )
    return name
