"""Shapes of quotas and priority classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from arbiter.api.policy import SpareOrder
from primitives.units import BASIS_POINTS, MGPU_MAX
from quotas.administration import REASON_LENGTH_MAX, QuotaEdit, percent_text
from quotas.models import (
    CLASS_ORDER_MAX,
    INSTALLATION_RANGES,
    PRICE_MULTIPLIER_PPM_MAX,
    InstallationPolicy,
    OrganizationPolicy,
    PriorityClass,
    QuotaChange,
)
from quotas.policies import ClassRules
from quotas.queries import QuotaRow
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
    """A percentage with at most two decimals, as text ("33.33"); inside, basis points."""

    def to_internal_value(self, data: Any) -> int:
        """Basis points. Raises ValidationError unless it is text from "0" to "100"."""
        match = _PERCENT.fullmatch(data) if isinstance(data, str) else None
        if match is not None:
            basis_points = int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))
            if basis_points <= BASIS_POINTS:
                return basis_points
        raise serializers.ValidationError(
            'must be text from "0" to "100" with at most two decimals, like "33.33"'
        )

    def to_representation(self, value: int) -> str:
        """Basis points as text with two decimals."""
        return percent_text(value) or ""


class QuotaUseSerializer(serializers.Serializer[Any]):
    """Where the arbiter's last cycle left the node; all 0 with `as_of` null before the first."""

    in_use_mgpu = serializers.IntegerField(help_text="Starting, running or being stopped")
    protected_mgpu = serializers.IntegerField(help_text="Of that, protected at this node")
    borrowed_mgpu = serializers.IntegerField(help_text="In use above the guarantee")
    lent_mgpu = serializers.IntegerField(help_text="Of its idle guarantee, in use by others")
    available_mgpu = serializers.IntegerField(
        help_text="What could still start here by quota; negative when too much is held"
    )
    waiting_mgpu = serializers.IntegerField(help_text="What its queued jobs ask for")
    as_of = serializers.DateTimeField(
        allow_null=True, help_text="When one of these numbers last changed"
    )


class QuotaSerializer(serializers.Serializer[Any]):
    """A node's quota in one pool. Limits of null are no limit of their own."""

    id = serializers.UUIDField()
    node = serializers.CharField(help_text="Path of the tree node")
    node_kind = serializers.ChoiceField(choices=NodeKind.values)
    node_name = serializers.CharField()
    # The stubs know `parent` as the enclosing serializer; here it is a member of the answer.
    parent = serializers.CharField(  # type: ignore[assignment]
        allow_null=True, help_text="Path of the parent"
    )
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    guaranteed_mgpu = serializers.IntegerField()
    guaranteed_percent = serializers.CharField(
        allow_null=True, help_text='Of the parent, like "40.00", when it is written so'
    )
    borrow_limit_mgpu = serializers.IntegerField(allow_null=True)
    lend_limit_mgpu = serializers.IntegerField(allow_null=True)
    weight = serializers.IntegerField()
    version = serializers.IntegerField(help_text='The ETag is "v" and this number, quoted')
    reserve_mgpu = serializers.IntegerField(help_text="Guaranteed, but to no child")
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
        help_text="What the caller may change, by the names that PATCH takes. Without "
        "`guaranteed_mgpu`, a borrow limit that is set may only be lowered",
    )

    def to_representation(self, instance: QuotaRow) -> dict[str, Any]:
        """The row as JSON."""
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
    """What to set; what is left out stays."""

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
        """What to set, as the domain takes it."""
        return self.edit_of(self.validated_data)

    @staticmethod
    def edit_of(given: Mapping[str, Any]) -> QuotaEdit:
        """The same of fields that are validated already."""
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
    """What to change; what is left out stays."""

    reason = TextField(
        max_length=REASON_LENGTH_MAX, help_text="Why; kept in the history for everybody to read"
    )


class QuotaCreateSerializer(QuotaSettingsSerializer):
    """A first quota for a node in a pool; one of the two guarantees is needed."""

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
    """One change of a quota; `before` is null for the first."""

    actor = serializers.CharField(
        source="actor.login", allow_null=True, help_text="Login; null: the system"
    )
    before = QuotaValuesSerializer(allow_null=True)
    after = QuotaValuesSerializer()

    class Meta:
        model = QuotaChange
        fields = ["id", "at", "actor", "before", "after", "reason"]


class PriorityClassSerializer(serializers.ModelSerializer[PriorityClass]):
    """A priority class of an organization; higher `order` is served first."""

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
            "description",
            "is_retired",
            "version",
        ]


class _ClassRulesSerializer(StrictSerializer):
    """What a priority class means, as far as it is given."""

    order = WholeNumberField(
        min_value=0,
        max_value=CLASS_ORDER_MAX,
        required=False,
        help_text="Higher is served first inside a team",
    )
    preempts_within_team = YesOrNoField(required=False, help_text="Lower classes of its own team")
    preempts_across_teams = YesOrNoField(
        required=False,
        help_text="Lower classes of all teams of the organization, protected or not, up to "
        "`team_cap_mgpu`, which it needs",
    )
    grace_period_s = WholeNumberField(
        min_value=0, max_value=86_400, required=False, help_text="From notice to forced stop"
    )
    team_cap_mgpu = WholeNumberField(
        min_value=0,
        max_value=MGPU_MAX,
        required=False,
        allow_null=True,
        help_text="What its jobs may hold in one team, in each pool; null: no cap",
    )
    price_multiplier_ppm = WholeNumberField(
        min_value=0,
        max_value=PRICE_MULTIPLIER_PPM_MAX,
        required=False,
        help_text="Parts per million of the price; holds for what starts from then on, and is set "
        "by who manages prices",
    )
    description = TextField(max_length=200, required=False, allow_blank=True)


class PriorityClassCreateSerializer(_ClassRulesSerializer):
    """A new priority class; what is left out is as of `normal`, without a cap."""

    organization = TextField(max_length=SLUG_LENGTH_MAX, help_text="Its slug")
    name = TextField(
        max_length=SLUG_LENGTH_MAX,
        help_text=f"`{SLUG_PATTERN}`; once in an organization, and it never changes",
    )
    order = WholeNumberField(
        min_value=0, max_value=CLASS_ORDER_MAX, help_text="Higher is served first inside a team"
    )

    def to_rules(self) -> ClassRules:
        """What was given, as the domain takes it."""
        given = {**self.validated_data}
        del given["organization"], given["name"]
        return ClassRules(**given)


class PriorityClassUpdateSerializer(_ClassRulesSerializer):
    """What to change; what is left out stays."""

    is_retired = YesOrNoField(
        required=False, help_text="Takes no new jobs; those that are of it go on"
    )


class PolicySerializer(serializers.ModelSerializer[OrganizationPolicy]):
    """An organization's rules of service."""

    organization = serializers.CharField(source="organization.slug")
    rank = serializers.ListField(
        child=serializers.CharField(), help_text="Paths of nodes: who gets spare GPUs first"
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
    """What to change; what is left out stays."""

    rank = BoundedListField(child=TextField(max_length=2_000), max_length=1_000, required=False)
    grace_period_s = WholeNumberField(
        min_value=0, max_value=86_400, required=False, help_text="From notice to forced stop"
    )
    fair_share_half_life_s = WholeNumberField(
        min_value=3_600, max_value=315_360_000, required=False
    )
    spare_order = serializers.ChoiceField(
        choices=[order.value for order in SpareOrder],
        required=False,
        help_text="What decides between teams of equal rank that may use spare GPUs",
    )
    min_run_s = WholeNumberField(
        min_value=0,
        max_value=86_400,
        required=False,
        help_text="Who has run for less than this is stopped last",
    )
    preemptions_max = WholeNumberField(
        min_value=1,
        max_value=1_000,
        required=False,
        help_text="So is who was stopped for others as often as this",
    )
    skips_blocked_within_team = YesOrNoField(
        required=False,
        help_text="Whether a job may start before an earlier one of its team that cannot",
    )
    time_zone = TextField(max_length=TIME_ZONE_LENGTH_MAX, required=False, help_text=TIME_ZONE_HELP)


def _installation_number(name: str, help_text: str) -> WholeNumberField:
    low, high = INSTALLATION_RANGES[name]
    return WholeNumberField(min_value=low, max_value=high, required=False, help_text=help_text)


class InstallationPolicySerializer(serializers.ModelSerializer[InstallationPolicy]):
    """What holds for all organizations alike."""

    class Meta:
        model = InstallationPolicy
        fields = [*INSTALLATION_RANGES, "version"]


class InstallationPolicyUpdateSerializer(StrictSerializer):
    """What to change; what is left out stays."""

    grace_period_s_max = _installation_number(
        "grace_period_s_max", "From notice to forced stop, whatever an organization says"
    )
    starts_max = _installation_number("starts_max", "Jobs started in one cycle")
    reclaims_max = _installation_number("reclaims_max", "Jobs that get GPUs back in one cycle")
    claim_overdue_s = _installation_number(
        "claim_overdue_s", "How long after its grace GPUs of a victim are still waited for"
    )
    credit_floor_s = _installation_number(
        "credit_floor_s", "Seconds of its guarantee: how deep a team's credits may go"
    )
    reservations_max = _installation_number(
        "reservations_max", "Blocked jobs of each pool that hold a reservation"
    )
    reservation_horizon_s = _installation_number(
        "reservation_horizon_s", "For how long at most GPUs are kept free for a job"
    )
    min_run_s = _installation_number(
        "min_run_s",
        "Who has run for less than this is stopped last, where another organization takes back",
    )
    preemptions_max = _installation_number(
        "preemptions_max", "So is who was stopped for others as often as this"
    )
    costly_loss_s = _installation_number(
        "costly_loss_s", "Who would lose more seconds of work than this is stopped after all others"
    )
