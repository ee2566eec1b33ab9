"""Representations of credits. Amounts are millionths of a GPU-second of the reference GPU."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from bank.models import CAP_S_MAX, CreditBank
from credits.settlement import TransferKind
from quotas.installation import installation_policy
from webapi.serializers import StrictSerializer, UtcTimeField, WholeNumberField, YesOrNoField

#: Kinds of lines of a statement.
LINE_KINDS = tuple(kind.value for kind in TransferKind)


class CreditBankSerializer(serializers.ModelSerializer[CreditBank]):
    """The credit bank of an organization."""

    organization = serializers.CharField(source="organization.slug")
    cap_s = serializers.IntegerField(help_text="Highest balance, as seconds of the guarantee")
    floor_s = serializers.SerializerMethodField(
        help_text="Lowest balance from borrowing, as seconds of the guarantee"
    )
    switched_at = UtcTimeField(help_text="When it was last switched on or off")

    class Meta:
        model = CreditBank
        fields = ["organization", "is_on", "cap_s", "floor_s", "switched_at", "version"]

    def get_floor_s(self, bank: CreditBank) -> int:
        """Return the floor of the installation."""
        return installation_policy().credit_floor_s


class CreditBankUpdateSerializer(StrictSerializer):
    """A change of a credit bank. Missing settings stay."""

    is_on = YesOrNoField(
        required=False,
        help_text="Whether credits are settled and order spare GPUs. Use before the switch is "
        "never settled",
    )
    cap_s = WholeNumberField(
        min_value=0,
        max_value=CAP_S_MAX,
        required=False,
        help_text="Highest balance, as seconds of the guarantee",
    )


class TeamCreditsSerializer(serializers.Serializer[Any]):
    """The credits of a team."""

    team = serializers.CharField(source="team.display_path")
    guaranteed_mgpu = serializers.IntegerField()
    balance_ugpu_s = serializers.IntegerField()
    floor_ugpu_s = serializers.IntegerField(help_text="At this balance borrowing is unpaid")
    cap_ugpu_s = serializers.IntegerField(help_text="Earnings above it go to the common account")
    transferable_ugpu_s = serializers.IntegerField(
        help_text="What the team can transfer: the balance above 0, less pending transfers"
    )
    tenths = serializers.IntegerField(
        help_text="Balance in whole tenths of a day of the guarantee, which order spare GPUs"
    )


class PoolCreditsSerializer(serializers.Serializer[Any]):
    """All credits of an organization in a pool."""

    organization = serializers.CharField(source="organization.slug")
    pool = serializers.CharField(source="pool.name")
    is_on = serializers.BooleanField(help_text="Whether the credit bank is on")
    settled_until = UtcTimeField(allow_null=True)
    common_ugpu_s = serializers.IntegerField(
        source="pool_ugpu_s",
        help_text="Balance of the common account. All balances and this one sum to 0",
    )
    teams = TeamCreditsSerializer(
        many=True, help_text="In their order for spare GPUs, by rank and then by credits"
    )


class StatementLineSerializer(serializers.Serializer[Any]):
    """All transfers of one day, of one kind, with one other account."""

    day = serializers.DateField()
    kind = serializers.ChoiceField(choices=LINE_KINDS)
    other = serializers.CharField(help_text="Path of the other team; empty: the common account")
    amount_ugpu_s = serializers.IntegerField(help_text="Above 0: credits that the team got")
    balance_ugpu_s = serializers.IntegerField(help_text="Balance after the line")
    reason = serializers.CharField(
        help_text="Why a past interval was corrected, or credits were transferred. Else empty"
    )
    expires_on = serializers.DateField(
        allow_null=True, help_text="Last day of what the line earned, unless it is spent before"
    )


class BorrowingSerializer(serializers.Serializer[Any]):
    """The borrowed use of an attempt that credits pay."""

    day = serializers.DateField()
    job = serializers.UUIDField(source="job_id")
    job_name = serializers.CharField()
    attempt = serializers.IntegerField(help_text="Number of the attempt")
    amount_ugpu_s = serializers.IntegerField(
        source="amount", help_text="Of the whole day; of an hour for what is on hold now"
    )
    attempts = serializers.IntegerField(
        help_text="All attempts that borrowed then; the largest are listed"
    )


class ExpiringSerializer(serializers.Serializer[Any]):
    """Earnings that are not spent yet."""

    earned_in = serializers.DateField(help_text="First day of the month in which it was earned")
    last_day = serializers.DateField(help_text="Day at the end of which they expire")
    amount_ugpu_s = serializers.IntegerField()


class EarnedSerializer(serializers.Serializer[Any]):
    """Earnings of a team in a month from one other account."""

    other = serializers.CharField(help_text="Path of the borrower; empty: dividend")
    amount_ugpu_s = serializers.IntegerField()


class EarnedInSerializer(serializers.Serializer[Any]):
    """All earnings of a team in a month, spent or not."""

    month = serializers.DateField(help_text="First day of the month")
    earned = EarnedSerializer(many=True, help_text="Largest first")


class CreditNoticeSerializer(serializers.Serializer[Any]):
    """A notice that earnings expire soon."""

    last_day = serializers.DateField(help_text="Day at the end of which they expire")
    amount_ugpu_s = serializers.IntegerField(help_text="What was left then")
    days = serializers.IntegerField(help_text="30, 7 or 1: at most so many days before")
    given_at = UtcTimeField()


class StatementSerializer(serializers.Serializer[Any]):
    """A team's credits in a month of its organization's time zone."""

    team = serializers.CharField(source="team.display_path")
    pool = serializers.CharField(source="pool.name")
    start = UtcTimeField()
    end = UtcTimeField()
    opening_ugpu_s = serializers.IntegerField()
    closing_ugpu_s = serializers.IntegerField(help_text="The opening balance plus all lines")
    lines = StatementLineSerializer(many=True)
    expiring = ExpiringSerializer(many=True)
    earned_in = EarnedInSerializer(
        many=True, help_text="Who paid for the months in which unspent credits were earned"
    )
    borrowing = BorrowingSerializer(
        many=True, help_text="Attempts with paid borrowed use, by day; those that you may see"
    )
    notices = CreditNoticeSerializer(many=True, help_text="Notices of the month, latest first")


class DayBalanceSerializer(serializers.Serializer[Any]):
    """The balance at the end of a day."""

    day = serializers.DateField()
    balance_ugpu_s = serializers.IntegerField(source="balance")


class BalanceForecastSerializer(serializers.Serializer[Any]):
    """The expected balance at the end of a month, and the range of all methods."""

    last_day = serializers.DateField()
    low_ugpu_s = serializers.IntegerField(source="low")
    middle_ugpu_s = serializers.IntegerField(source="middle")
    high_ugpu_s = serializers.IntegerField(source="high")
    flow_ugpu_s = serializers.IntegerField(
        source="flow", help_text="Expected earnings less payments until then"
    )
    expiring_ugpu_s = serializers.IntegerField(
        source="expiring", help_text="Earnings that expire unspent until then"
    )


class CreditHistorySerializer(serializers.Serializer[Any]):
    """A team's balance by day of a month, what is on hold now, and the end of the month."""

    team = serializers.CharField(source="team.display_path")
    pool = serializers.CharField(source="pool.name")
    settled_until = UtcTimeField(allow_null=True)
    opening_ugpu_s = serializers.IntegerField(source="opening")
    balance_ugpu_s = serializers.IntegerField(source="balance", help_text="The present balance")
    floor_ugpu_s = serializers.IntegerField(source="floor")
    cap_ugpu_s = serializers.IntegerField(source="cap")
    held_ugpu_s = serializers.IntegerField(
        source="held", help_text="On hold for the next hour of running jobs that borrow"
    )
    pending_ugpu_s = serializers.IntegerField(
        source="pending", help_text="On hold for transfers that wait for approval"
    )
    days = DayBalanceSerializer(many=True)
    borrowing = BorrowingSerializer(
        many=True, help_text="Running attempts that borrow; those that you may see"
    )
    forecast = BalanceForecastSerializer(
        allow_null=True, help_text="Of the present month, from its first complete day on"
    )
