"""Shapes of fair-share and capacity."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rest_framework import serializers

from clusters.models import Pool
from shares.api.serializers import FairShareSerializer, fair_share_body
from shares.capacity import PoolCapacity
from shares.explained_fair_share import ExplainedFairShare, FairShareRow
from shares.summaries import NodeSummary
from webapi.serializers import DEVICE_HELP, DEVICES


class NodeFairShareSerializer(FairShareSerializer):
    """The fair-share of a node. That of an organization has nothing of other organizations."""

    node = serializers.CharField()
    sentence = serializers.CharField(help_text="Its place among its siblings, and why")


class OutlookPointSerializer(serializers.Serializer[Any]):
    """The decayed use after a time, in milli-GPU-seconds of the reference GPU."""

    after_s = serializers.IntegerField()
    idle_mgpu_s = serializers.IntegerField(help_text="If the node used nothing from now on")
    steady_mgpu_s = serializers.IntegerField(help_text="If it went on to use what it uses now")


class ExplainedFairShareSerializer(serializers.Serializer[Any]):
    """The fair-share of a node in a pool, of the nodes above and below it, and its outlook."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    as_of = serializers.DateTimeField()
    node = NodeFairShareSerializer()
    above = NodeFairShareSerializer(many=True, help_text="The organization first")
    below = NodeFairShareSerializer(many=True, help_text="The nodes right below, by their place")
    in_use_mgpu = serializers.IntegerField(
        help_text="Use of the node now, of all pools, in milli-GPU of the reference GPU"
    )
    outlook = OutlookPointSerializer(many=True, help_text="Over four half-lives")


class NodeSummarySerializer(FairShareSerializer):
    """The fair-share of a node, the credits of its teams, and its use of the last seven days."""

    node = serializers.CharField()
    credits_ugpu_s = serializers.IntegerField(
        allow_null=True,
        help_text="In millionths of a GPU-second of the reference GPU. Null: no credit bank",
    )
    week_mgpu = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Average use of each day in the organization's time zone; the last is today, "
        "so far",
    )


class NodeSummariesSerializer(serializers.Serializer[Any]):
    """The summaries of a node and of all nodes below it."""

    pool = serializers.CharField()
    as_of = serializers.DateTimeField()
    nodes = NodeSummarySerializer(many=True, help_text="By path; archived nodes are left out")


class FreeBlocksSerializer(serializers.Serializer[Any]):
    """The jobs of a size that fit side by side on the free devices of a cluster."""

    devices = serializers.IntegerField()
    blocks = serializers.IntegerField()


class ClusterCapacitySerializer(serializers.Serializer[Any]):
    """The free devices of a pool on a cluster."""

    cluster = serializers.CharField()
    is_accepting = serializers.BooleanField(help_text="Whether it starts jobs now")
    nodes = serializers.IntegerField()
    free_nodes = serializers.IntegerField(help_text="Nodes that are free as a whole")
    capacity_mgpu = serializers.IntegerField()
    free_mgpu = serializers.IntegerField(help_text="Neither in use nor kept for a claim")
    whole_mgpu = serializers.IntegerField(help_text="Part of it on nodes that are free as a whole")
    largest_mgpu = serializers.IntegerField(help_text="Most that is free on one node")
    claimed_mgpu = serializers.IntegerField(help_text="Free, but kept for jobs with a claim")
    fragmented_permille = serializers.IntegerField(
        help_text="Part of the free devices on nodes that are used in part"
    )
    blocks = FreeBlocksSerializer(many=True)


class LoanSerializer(serializers.Serializer[Any]):
    """GPUs that a node uses beyond its guarantee, and the node whose idle guarantee it uses.

    "(reserve)" is what `within` guarantees to no child, "(outside)" everything outside of it.
    """

    within = serializers.CharField()
    borrower = serializers.CharField()
    lender = serializers.CharField()
    mgpu = serializers.IntegerField()


class StarvedTeamSerializer(serializers.Serializer[Any]):
    """A team that waits for GPUs inside of its guarantee."""

    team = serializers.CharField()
    missing_mgpu = serializers.IntegerField(
        help_text="Part of the waiting GPUs that it is guaranteed"
    )
    waiting_mgpu = serializers.IntegerField()
    waiting_since = serializers.DateTimeField(allow_null=True)


class PoolCapacitySerializer(serializers.Serializer[Any]):
    """The capacity of a pool now, and who borrows and who starves in an organization."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    as_of = serializers.DateTimeField()
    organization = serializers.CharField()
    clusters = ClusterCapacitySerializer(many=True)
    loans = LoanSerializer(many=True, help_text="The largest first")
    starved = StarvedTeamSerializer(many=True, help_text="Those that miss the most first")


def _row_body(row: FairShareRow) -> dict[str, Any]:
    return {
        **fair_share_body(row.share),
        "node": row.node.display_path,
        "sentence": row.sentence,
    }


def explained_fair_share_body(page: ExplainedFairShare) -> dict[str, Any]:
    """Return the page in the form of `ExplainedFairShareSerializer`."""
    return {
        "pool": page.pool.name,
        "device": page.pool.device,
        "as_of": page.as_of,
        "node": _row_body(page.row),
        "above": [_row_body(row) for row in page.above],
        "below": [_row_body(row) for row in page.below],
        "in_use_mgpu": page.in_use_mgpu,
        "outlook": page.outlook,
    }


def summaries_body(pool: Pool, as_of: datetime, found: Sequence[NodeSummary]) -> dict[str, Any]:
    """Return summaries in the form of `NodeSummariesSerializer`."""
    return {
        "pool": pool.name,
        "as_of": as_of,
        "nodes": [
            {
                **fair_share_body(one.share),
                "node": one.node.display_path,
                "credits_ugpu_s": one.credits_ugpu_s,
                "week_mgpu": one.week_mgpu,
            }
            for one in found
        ],
    }


def capacity_body(found: PoolCapacity) -> dict[str, Any]:
    """Return the capacity in the form of `PoolCapacitySerializer`."""
    return {
        "pool": found.pool.name,
        "device": found.pool.device,
        "as_of": found.as_of,
        "organization": found.organization.display_path,
        "clusters": found.clusters,
        "loans": found.loans,
        "starved": found.starved,
    }
