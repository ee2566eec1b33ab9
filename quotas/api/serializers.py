"""Shapes of quotas, policies and priority classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from arbiter.api.policy import SpareOrder
from primitives.units import BASIS_POINTS, MGPU_MAX
from quotas.administration import QuotaEdit
from quotas.models import (
    CLASS_ORDER_MAX,
    INSTALLATION_RANGES,
    PRICE_MULTIPLIER_PPM_MAX,
    USE_FACTOR_MAX,
    InstallationPolicy,
    OrganizationPolicy,
    PriorityClass,
    QuotaChange,
)
from quotas.policies import ClassRules
from quotas.queries import QuotaRow
from quotas.quota_store import REASON_LENGTH_MAX, percent_text
from tenants.models import NodeKind
from tenants.names import SLUG_LENGTH_MAX, SLUG_PATTERN, TIME_ZONE_HELP, TIME_ZONE_LENGTH_MAX
from webapi.serializers import (
    DEVICE_HELP,
    DEVICES,
    BoundedListField,
    StrictSerializer,
    TextField,
    WholeNumberField,
    YesOrNoField,
)

WEIGHT_MAX = 1_000_000
_PERCENT = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?", re.ASCII)


@extend_schema_field({"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,2})?$"})
class PercentField(serializers.Field[int, str, str, int]):
    """A percentage with at most two decimals, as text ("33.33"). Its value is in basis points."""

    def to_internal_value(self, data: Any) -> int:
        """Return basis points. Raises ValidationError unless it is text from "0" to "100"."""
        match = _PERCENT.fullmatch(data) if isinstance(data, str) else None
        if match is not None:
            basis_points = int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))
            if basis_points <= BASIS_POINTS:
                return basis_points
        raise serializers.ValidationError(
            'must be text from "0" to "100" with at most two decimals, like "33.33"'
        )

    def to_representation(self, value: int) -> str:
        """Return basis points as text with two decimals."""
        return percent_text(value) or ""


class QuotaUseSerializer(serializers.Serializer[Any]):
    """The node's use after the scheduler's last cycle.

    All 0, with `as_of` null, before the first one.
    """

    in_use_mgpu = serializers.IntegerField(help_text="Use of starting, running and stopping jobs")
    protected_mgpu = serializers.IntegerField(help_text="Part of it that is protected at this node")
    borrowed_mgpu = serializers.IntegerField(help_text="Use above the guarantee")
    lent_mgpu = serializers.IntegerField(help_text="Unused guarantee that others use")
    available_mgpu = serializers.IntegerField(
        help_text="How much its quota still allows to start here; negative if use is over the limit"
    )
    waiting_mgpu = serializers.IntegerField(help_text="Size of its queued jobs")
    as_of = serializers.DateTimeField(
        allow_null=True, help_text="Time of the last change of these numbers"
    )


class QuotaSerializer(serializers.Serializer[Any]):
    """A node's quota in one pool. A limit of null means no limit of its own."""

    id = serializers.UUIDField()
    node = serializers.CharField(help_text="Path of the tree node")
    node_kind = serializers.ChoiceField(choices=NodeKind.values)
    node_name = serializers.CharField()
    # In the stubs, `parent` is the enclosing serializer. Here it is a member of the answer.
    parent = serializers.CharField(  # type: ignore[assignment]
        allow_null=True, help_text="Path of the parent"
    )
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    guaranteed_mgpu = serializers.IntegerField()
    guaranteed_percent = serializers.CharField(
        allow_null=True, help_text='Percentage of the parent ("40.00"), if given as a percentage'
    )
    borrow_limit_mgpu = serializers.IntegerField(allow_null=True)
    lend_limit_mgpu = serializers.IntegerField(allow_null=True)
    weight = serializers.IntegerField()
    version = serializers.IntegerField(help_text='The ETag is "v" and this number, quoted')
    reserve_mgpu = serializers.IntegerField(help_text="Part of the guarantee without a child")
    use = QuotaUseSerializer()
    can_edit = serializers.ListField(
        child=serializers.ChoiceField(
            choices=[
                "guaranteed_mgpu",
                "guaranteed_percent",
                "borrow_limit_mgpu",
                "lend_limit_mgpu",
                "weight",
            ]
        ),
        help_text="Settings that the caller may change, by their names in PATCH. Without "
        "`guaranteed_mgpu`, an existing borrow limit may only be lowered",
    )

    def to_representation(self, instance: QuotaRow) -> dict[str, Any]:
        """Return the row as JSON."""
        quota, node = instance.quota, instance.quota.node
        return super().to_representation(
            {
                "id": quota.pk,
                "node": node.display_path,
                "node_kind": node.kind,
                "node_name": node.name,
                "parent": node.display_path.rpartition("/")[0] or None,
                "pool": quota.pool.name,
                "device": quota.pool.device,
                "guaranteed_mgpu": quota.guaranteed_mgpu,
                "guaranteed_percent": percent_text(quota.guaranteed_bp),
                "borrow_limit_mgpu": quota.borrow_limit_mgpu,
                "lend_limit_mgpu": quota.lend_limit_mgpu,
                "weight": quota.weight,
                "version": quota.version,
                "reserve_mgpu": instance.reserve_mgpu,
                "use": instance.use or _NO_USE,
                "can_edit": instance.can_edit,
            }
        )


_NO_USE: Mapping[str, Any] = {
    "in_use_mgpu": 0,
    "protected_mgpu": 0,
    "borrowed_mgpu": 0,
    "lent_mgpu": 0,
    "available_mgpu": 0,
    "waiting_mgpu": 0,
    "as_of": None,
}


class QuotaSettingsSerializer(StrictSerializer):
    """The settings to change. Missing settings stay."""

    guaranteed_mgpu = WholeNumberField(min_value=0, max_value=MGPU_MAX, required=False)
    guaranteed_percent = PercentField(required=False)
    borrow_limit_mgpu = WholeNumberField(
        min_value=0, max_value=MGPU_MAX, required=False, allow_null=True
    )
    lend_limit_mgpu = WholeNumberField(
        min_value=0, max_value=MGPU_MAX, required=False, allow_null=True
    )
    weight = WholeNumberField(min_value=1, max_value=WEIGHT_MAX, required=False)

    def to_edit(self) -> QuotaEdit:
        """Return the settings as an edit."""
        return self.edit_of(self.validated_data)

    @staticmethod
    def edit_of(given: Mapping[str, Any]) -> QuotaEdit:
        """Return an edit from validated fields."""
        edit = QuotaEdit()
        if "guaranteed_mgpu" in given:
            edit["guaranteed_mgpu"] = given["guaranteed_mgpu"]
        if "guaranteed_percent" in given:
            edit["guaranteed_bp"] = given["guaranteed_percent"]
        if "borrow_limit_mgpu" in given:
            edit["borrow_limit_mgpu"] = given["borrow_limit_mgpu"]
        if "lend_limit_mgpu" in given:
            edit["lend_limit_mgpu"] = given["lend_limit_mgpu"]
        if "weight" in given:
            edit["weight"] = given["weight"]
        return edit


class QuotaUpdateSerializer(QuotaSettingsSerializer):
    """A change of a quota. Missing settings stay."""

    reason = TextField(
        max_length=REASON_LENGTH_MAX, help_text="Reason, stored in the history that all users read"
    )


class QuotaCreateSerializer(QuotaSettingsSerializer):
    """A first quota for a node in a pool. One of the two guarantees is required."""

    node = TextField(max_length=2_000, help_text="Path of the tree node")
    pool = TextField(max_length=63)
    reason = TextField(max_length=REASON_LENGTH_MAX, required=False, default="First quota")


class QuotaValuesSerializer(serializers.Serializer[Any]):
    """A quota's settings at one time."""

    guaranteed_mgpu = serializers.IntegerField()
    guaranteed_percent = serializers.CharField(allow_null=True)
    borrow_limit_mgpu = serializers.IntegerField(allow_null=True)
    lend_limit_mgpu = serializers.IntegerField(allow_null=True)
    weight = serializers.IntegerField()


class QuotaChangeSerializer(serializers.ModelSerializer[QuotaChange]):
    """One change of a quota. `before` is null for the first."""

    actor = serializers.CharField(
        source="actor.login", allow_null=True, help_text="Login; null: the system"
    )
    before = QuotaValuesSerializer(allow_null=True)
    after = QuotaValuesSerializer()

    class Meta:
        model = QuotaChange
        fields = ["id", "at", "actor", "before", "after", "reason"]


class PriorityClassSerializer(serializers.ModelSerializer[PriorityClass]):
    """A priority class of an organization. A higher `order` means a higher priority."""

    organization = serializers.CharField(source="organization.slug")

    class Meta:
        model = PriorityClass
        fields = [
            "id",
            "organization",
            "name",
            "order",
            "preempts_within_team",
            "preempts_across_teams",
            "grace_period_s",
            "team_cap_mgpu",
            "price_multiplier_ppm",
            "use_factor_percent",
            "description",
            "is_retired",
            "version",
        ]


class _ClassRulesSerializer(StrictSerializer):
    """The given rules of a priority class."""

    order = WholeNumberField(
        min_value=0,
        max_value=CLASS_ORDER_MAX,
        required=False,
        help_text="Priority value inside a team; higher starts first",
    )
    preempts_within_team = YesOrNoField(
        required=False, help_text="Preempts jobs of lower classes in its own team"
    )
    preempts_across_teams = YesOrNoField(
        required=False,
        help_text="Preempts jobs of lower classes in all teams of the organization, protected or "
        "not, up to `team_cap_mgpu`, which is then required",
    )
    grace_period_s = WholeNumberField(
        min_value=0,
        max_value=86_400,
        required=False,
        help_text="Seconds from notice to forced stop",
    )
    team_cap_mgpu = WholeNumberField(
        min_value=0,
        max_value=MGPU_MAX,
        required=False,
        allow_null=True,
        help_text="Limit of its jobs in one team and pool; null: no limit",
    )
    price_multiplier_ppm = WholeNumberField(
        min_value=0,
        max_value=PRICE_MULTIPLIER_PPM_MAX,
        required=False,
        help_text="Factor of the price in parts per million. It applies to jobs that start from "
        "then on. Only price managers may set it",
    )
    use_factor_percent = WholeNumberField(
        min_value=0,
        max_value=USE_FACTOR_MAX,
        required=False,
        help_text="How much of the use of its jobs counts for fair-share, in percent. It applies "
        "to jobs that start from then on",
    )
    description = TextField(max_length=200, required=False, allow_blank=True)


class PriorityClassCreateSerializer(_ClassRulesSerializer):
    """A new priority class. Defaults are those of `normal`, without a cap."""

    organization = TextField(max_length=SLUG_LENGTH_MAX, help_text="Slug of the organization")
    name = TextField(
        max_length=SLUG_LENGTH_MAX,
        help_text=f"`{SLUG_PATTERN}`. Unique in an organization. It never changes",
    )
    order = WholeNumberField(
        min_value=0,
        max_value=CLASS_ORDER_MAX,
        help_text="Priority value inside a team; higher starts first",
    )

    def to_rules(self) -> ClassRules:
        """Return the given values as rules."""
        given = {**self.validated_data}
        del given["organization"], given["name"]
        return ClassRules(**given)


class PriorityClassUpdateSerializer(_ClassRulesSerializer):
    """A change of a priority class. Missing settings stay."""

    is_retired = YesOrNoField(
        required=False, help_text="Accepts no new jobs; its present jobs continue"
    )


class PolicySerializer(serializers.ModelSerializer[OrganizationPolicy]):
    """An organization's policy."""

    organization = serializers.CharField(source="organization.slug")
    rank = serializers.ListField(
        child=serializers.CharField(),
        help_text="Paths of nodes; the first one gets spare GPUs first",
    )

    class Meta:
        model = OrganizationPolicy
        fields = [
            "organization",
            "rank",
            "grace_period_s",
            "fair_share_half_life_s",
            "spare_order",
            "min_run_s",
            "preemptions_max",
            "skips_blocked_within_team",
            "time_zone",
            "version",
        ]
        extra_kwargs = {"time_zone": {"help_text": TIME_ZONE_HELP}}


class PolicyUpdateSerializer(StrictSerializer):
    """A change of an organization's policy. Missing settings stay."""

    rank = BoundedListField(child=TextField(max_length=2_000), max_length=1_000, required=False)
    grace_period_s = WholeNumberField(
        min_value=0,
        max_value=86_400,
        required=False,
        help_text="Seconds from notice to forced stop",
    )
    fair_share_half_life_s = WholeNumberField(
        min_value=3_600, max_value=315_360_000, required=False
    )
    spare_order = serializers.ChoiceField(
        choices=[order.value for order in SpareOrder],
        required=False,
        help_text="Order of teams of equal rank that may use spare GPUs",
    )
    min_run_s = WholeNumberField(
        min_value=0,
        max_value=86_400,
        required=False,
        help_text="Jobs younger than this are preempted last, in seconds",
    )
    preemptions_max = WholeNumberField(
        min_value=1,
        max_value=1_000,
        required=False,
        help_text="Jobs preempted this often are preempted last",
    )
    skips_blocked_within_team = YesOrNoField(
        required=False,
        help_text="Whether a job may start before an earlier, blocked job of its team",
    )
    time_zone = TextField(max_length=TIME_ZONE_LENGTH_MAX, required=False, help_text=TIME_ZONE_HELP)


def _installation_number(name: str, help_text: str) -> WholeNumberField:
    low, high = INSTALLATION_RANGES[name]
    return WholeNumberField(min_value=low, max_value=high, required=False, help_text=help_text)


class InstallationPolicySerializer(serializers.ModelSerializer[InstallationPolicy]):
    """The rules for all organizations."""

    class Meta:
        model = InstallationPolicy
        fields = [*INSTALLATION_RANGES, "version"]


class InstallationPolicyUpdateSerializer(StrictSerializer):
    """A change of the installation's policy. Missing settings stay."""

    grace_period_s_max = _installation_number(
        "grace_period_s_max", "Longest time from notice to forced stop, for all organizations"
    )
    starts_max = _installation_number("starts_max", "Most jobs started in one cycle")
    reclaims_max = _installation_number("reclaims_max", "Most jobs that reclaim GPUs in one cycle")
    claim_overdue_s = _installation_number(
        "claim_overdue_s", "Seconds after its grace period for which a victim's GPUs are awaited"
    )
    credit_floor_s = _installation_number(
        "credit_floor_s", "Lowest balance of a team's credits, as seconds of its guarantee"
    )
    reservations_max = _installation_number(
        "reservations_max", "Most blocked jobs of each pool with a reservation"
    )
    reservation_horizon_s = _installation_number(
        "reservation_horizon_s", "Longest time for which GPUs are reserved for a job"
    )
    min_run_s = _installation_number(
        "min_run_s",
        "Jobs younger than this are preempted last when another organization reclaims GPUs",
    )
    preemptions_max = _installation_number(
        "preemptions_max", "Jobs preempted this often are preempted last as well"
    )
    costly_loss_s = _installation_number(
        "costly_loss_s", "Jobs that would lose more work than this (seconds) are preempted last"
    )
