"""Shapes of entitlements."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from arbiter.explain.fair_shares import NodeFairShare
from jobs.whatif.starts_by_size import StartKind
from shares.entitlements import Entitlement, PoolEntitlement
from shares.waits_by_size import REACH
from webapi.serializers import DEVICE_HELP, DEVICES


class FairShareSerializer(serializers.Serializer[Any]):
    """The fair-share of a node among its siblings in a pool, in the scheduler's numbers."""

    weight = serializers.IntegerField()
    weight_permille = serializers.IntegerField(
        help_text="Part of the weights of the node and its siblings"
    )
    used_mgpu_s = serializers.IntegerField(
        help_text="Decayed use of all pools, in milli-GPU-seconds of the reference GPU"
    )
    used_permille = serializers.IntegerField(
        help_text="Part of the decayed use of the node and its siblings"
    )
    level_permille = serializers.IntegerField(
        allow_null=True,
        help_text="Part of the weight over part of the use; 1000 is even. Null: no use",
    )
    place = serializers.IntegerField(help_text="Position among the siblings; 1 comes first")
    siblings = serializers.IntegerField(help_text="The node and its siblings")
    half_life_s = serializers.IntegerField()


class ReclaimedSerializer(serializers.Serializer[Any]):
    """Jobs of the team on notice of a reclaim."""

    jobs = serializers.IntegerField()
    mgpu = serializers.IntegerField()
    until = serializers.DateTimeField(allow_null=True, help_text="The first must stop by then")


class PartnerSerializer(serializers.Serializer[Any]):
    """A node that borrows from the team, or lends to it.

    "(reserve)" is a guarantee that a node above gave to no child, "(outside)" all of the
    installation outside of the organization.
    """

    node = serializers.CharField()
    mgpu = serializers.IntegerField()


class SizeStartSerializer(serializers.Serializer[Any]):
    """The start of a job of a size, were it submitted now. Nothing is reserved."""

    devices = serializers.IntegerField()
    nodes = serializers.IntegerField()
    kind = serializers.ChoiceField(
        choices=[kind.value for kind in StartKind],
        help_text="guaranteed, borrowed: it would start now. reclaim: once victims have stopped",
    )
    borrowed_mgpu = serializers.IntegerField(help_text="Part beyond the guarantee")
    cluster = serializers.CharField(allow_null=True)
    latest = serializers.DateTimeField(allow_null=True, help_text="Latest start, where known")
    code = serializers.CharField()
    sentence = serializers.CharField()


class SizeWaitsSerializer(serializers.Serializer[Any]):
    """Waits before the first start of jobs with at most `devices`, and more than half of them."""

    devices = serializers.IntegerField()
    jobs = serializers.IntegerField()
    p50_s = serializers.IntegerField(help_text="Half of the jobs waited no longer, in seconds")
    p95_s = serializers.IntegerField(help_text="95 % of the jobs waited no longer, in seconds")


class PoolEntitlementSerializer(serializers.Serializer[Any]):
    """The entitlement of a team in a pool. Use is as of the last cycle that changed it."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    as_of = serializers.DateTimeField(allow_null=True, help_text="Null: no cycle yet")
    sentence = serializers.CharField()
    guaranteed_mgpu = serializers.IntegerField()
    lend_limit_mgpu = serializers.IntegerField(allow_null=True)
    borrow_limit_mgpu = serializers.IntegerField(allow_null=True)
    in_use_mgpu = serializers.IntegerField()
    borrowed_mgpu = serializers.IntegerField()
    at_risk_mgpu = serializers.IntegerField(
        help_text="Use of jobs that others may reclaim, because they do not fit whole in the "
        "guarantee"
    )
    lent_mgpu = serializers.IntegerField()
    available_mgpu = serializers.IntegerField(help_text="What quota would let start now")
    waiting_mgpu = serializers.IntegerField()
    fair_share = FairShareSerializer()
    reclaimed = ReclaimedSerializer()
    borrowers = PartnerSerializer(many=True, help_text="Who uses the team's idle guarantee")
    lenders = PartnerSerializer(many=True, help_text="Whose idle guarantee the team uses")
    starts = SizeStartSerializer(
        many=True,
        allow_null=True,
        help_text="Null without the right to submit, and while other previews are computed",
    )
    waits = SizeWaitsSerializer(
        many=True,
        help_text=f"Jobs submitted in the last {REACH.days} days. Sizes without a start are absent",
    )


class ContactSerializer(serializers.Serializer[Any]):
    """A person who manages the team's jobs, by the role on the node."""

    username = serializers.CharField()
    name = serializers.CharField()
    role = serializers.CharField()
    node = serializers.CharField()


class EntitlementSerializer(serializers.Serializer[Any]):
    """The entitlement of a person in a team."""

    team = serializers.CharField()
    team_id = serializers.UUIDField()
    contacts = ContactSerializer(
        many=True, help_text="Empty for people outside of the team who may not see its jobs"
    )
    pools = PoolEntitlementSerializer(many=True)


def fair_share_body(share: NodeFairShare) -> dict[str, Any]:
    """Return a fair-share in the form of `FairShareSerializer`."""
    return {
        "weight": share.weight,
        "weight_permille": share.weight_permille,
        "used_mgpu_s": share.used_mgpu_s,
        "used_permille": share.used_permille,
        "level_permille": share.level_permille,
        "place": share.place,
        "siblings": share.siblings,
        "half_life_s": share.half_life_s,
    }


def entitlement_body(found: Entitlement) -> dict[str, Any]:
    """Return an entitlement in the form of `EntitlementSerializer`."""
    return {
        "team": found.team.display_path,
        "team_id": found.team.pk,
        "contacts": found.contacts,
        "pools": [_pool_body(each) for each in found.pools],
    }


def _pool_body(each: PoolEntitlement) -> dict[str, Any]:
    amounts = each.amounts
    return {
        "pool": each.pool.name,
        "device": each.pool.device,
        "as_of": each.as_of,
        "sentence": each.sentence,
        "guaranteed_mgpu": amounts.guaranteed_mgpu,
        "lend_limit_mgpu": amounts.lend_limit_mgpu,
        "borrow_limit_mgpu": amounts.borrow_limit_mgpu,
        "in_use_mgpu": amounts.in_use_mgpu,
        "borrowed_mgpu": amounts.borrowed_mgpu,
        "at_risk_mgpu": amounts.at_risk_mgpu,
        "lent_mgpu": amounts.lent_mgpu,
        "available_mgpu": amounts.available_mgpu,
        "waiting_mgpu": amounts.waiting_mgpu,
        "fair_share": fair_share_body(each.fair_share),
        "reclaimed": each.reclaimed,
        "borrowers": each.borrowers,
        "lenders": each.lenders,
        "starts": each.starts,
        "waits": [
            {
                "devices": size.devices,
                "jobs": size.waits.jobs,
                "p50_s": size.waits.p50_s,
                "p95_s": size.waits.p95_s,
            }
            for size in each.waits
        ],
    }
