"""Metered attempts, their usage and prices.

Billing knows jobs only by id, and its rows outlive them.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeBoundary, RangeOperators
from django.contrib.postgres.indexes import BrinIndex, GistIndex
from django.db import models
from django.db.models import F, Func, Q
from uuid_utils.compat import uuid7

# Django finds these models by the imports.
from billing import reconciliation_models as reconciliation_models
from billing import stored_charge_models as stored_charge_models
from clusters.models import Cluster, Pool
from primitives.units import MGPU_MAX, PPM
from quotas.models import PRICE_MULTIPLIER_PPM_MAX
from tenants.models import Node, User


class MeteredParty(models.Model):
    """A combination of organization, team, user, pool and cluster with metered attempts.

    With it, the database checks these references once, not again for every attempt that starts. A
    trigger adds the combinations of new attempts (`metered_parties_are_known`). Rows stay for ever,
    so every object that an attempt names exists as long as the attempt.
    """

    id = models.BigAutoField(primary_key=True)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    team = models.ForeignKey(Node, models.PROTECT, related_name="+")
    user = models.ForeignKey(User, models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "team", "pool", "cluster", "organization"],
                name="metered_party_is_told_once",
            ),
        ]

    def __str__(self) -> str:
        return f"metered party {self.id}"


class MeteredAttempt(models.Model):
    """The account that is charged for an attempt, as of its grant.

    `id` is the attempt's. `multiplier_ppm` is the price multiplier of its priority class at that
    time, and `use_factor_percent` how much of its use counts for fair-share. `MeteredParty` ensures
    that the named objects exist. `job_type` is the job's, or empty in attempts from before it was
    metered. From `classed_at` on, `guaranteed_mgpu` are inside the team's
    guarantee, until an event changes that. An older account has an event for its first class too.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    job_id = models.UUIDField()
    job_name = models.CharField(max_length=200)
    number = models.IntegerField()
    organization = models.ForeignKey(
        Node, models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    team = models.ForeignKey(Node, models.PROTECT, related_name="+", db_constraint=False)
    user = models.ForeignKey(
        User, models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    pool = models.ForeignKey(
        Pool, models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    cluster = models.ForeignKey(
        Cluster, models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    priority_class = models.CharField(max_length=63)
    multiplier_ppm = models.PositiveIntegerField(default=PPM)
    use_factor_percent = models.PositiveIntegerField(default=100)
    job_type = models.CharField(max_length=12, blank=True, default="", db_default="")
    mgpu = models.BigIntegerField()
    classed_at = models.DateTimeField(null=True)
    guaranteed_mgpu = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(mgpu__gte=1, mgpu__lte=MGPU_MAX), name="metered_attempt_holds_gpus"
            ),
            models.CheckConstraint(
                condition=Q(classed_at=None, guaranteed_mgpu=None)
                | Q(classed_at__isnull=False, guaranteed_mgpu__isnull=False),
                name="metered_attempt_has_a_whole_first_class",
            ),
        ]
        indexes = [
            models.Index(fields=["job_id"], name="metered_by_job"),
        ]

    def __str__(self) -> str:
        return f"metered attempt {self.id}"


class MeterEventKind(models.TextChoices):
    """The kind of a metered fact.

    Times are the cluster's own; for `classed` they are the arbiter's.
    """

    STARTED = "started"
    ENDED = "ended"
    LOST = "lost"
    CLASSED = "classed"
    SIZED = "sized"
    ANEW = "anew"
    FAULT = "fault"


class FaultReason(models.TextChoices):
    """The reason why use costs nothing.

    `node_failed` and `lost` are ends by a fault of the cluster. `preempted` is a preemption soon
    after the start (`billing.folding.EARLY`).
    """

    NODE_FAILED = "node_failed"
    LOST = "lost"
    PREEMPTED = "preempted"


class MeterEvent(models.Model):
    """One observed fact about an attempt. Append-only; a repeat changes nothing.

    The first class is stored in the account. `classed`: from `at` on, `guaranteed_mgpu` of the
    attempt are inside its team's guarantee, and the rest is borrowed. A class may change more than
    once in a second; then the one with the highest id counts. `sized`: the attempt uses `mgpu` on
    its cluster, other than granted. `anew`: the cluster forgot the start that it reported, and
    began again at `at`. `fault`: the attempt ended by a fault for `reason`, and its work since `at`
    was lost; for `preempted`, `at` is the time of the preemption.
    """

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(MeteredAttempt, models.PROTECT, related_name="events")
    kind = models.CharField(max_length=8, choices=MeterEventKind.choices)
    at = models.DateTimeField()
    guaranteed_mgpu = models.BigIntegerField(null=True)
    mgpu = models.BigIntegerField(null=True)
    reason = models.CharField(
        max_length=11, choices=FaultReason.choices, blank=True, default="", db_default=""
    )
    recorded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "kind"],
                condition=~Q(kind__in=["classed", "sized", "anew"]),
                name="meter_event_once_per_attempt",
            ),
            models.CheckConstraint(
                condition=Q(
                    kind__in=["started", "ended", "lost", "classed", "sized", "anew", "fault"]
                ),
                name="meter_event_kind_is_known",
            ),
            models.CheckConstraint(
                condition=Q(kind="fault", reason__in=["node_failed", "lost", "preempted"])
                | (~Q(kind="fault") & Q(reason="")),
                name="meter_fault_has_a_reason",
            ),
            models.CheckConstraint(
                condition=Q(kind="classed", guaranteed_mgpu__isnull=False)
                | (~Q(kind="classed") & Q(guaranteed_mgpu=None)),
                name="meter_class_has_an_amount",
            ),
            models.CheckConstraint(
                condition=Q(kind="sized", mgpu__isnull=False, mgpu__gte=1, mgpu__lte=MGPU_MAX)
                | (~Q(kind="sized") & Q(mgpu=None)),
                name="meter_size_has_an_amount",
            ),
        ]
        # Each closing of a month asks for the facts that came since the last one.
        indexes = [BrinIndex(fields=["recorded_at"], name="meter_event_by_recording")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.attempt_id}"


class MeterAnomalyReason(models.TextChoices):
    """The reason why a reported fact does not count as reported."""

    CONFLICT = "conflict"
    CLOCK_AHEAD = "clock_ahead"
    ENDS_BEFORE_START = "ends_before_start"


class MeterAnomaly(models.Model):
    """A reported fact that the meter did not accept as reported.

    It is stored for a person to look at. `conflict`: another time was reported first, which counts.
    `clock_ahead`: `at` was in the future, so the time of recording counts. `ends_before_start`: the
    attempt has no usage.
    """

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(MeteredAttempt, models.PROTECT, related_name="anomalies")
    kind = models.CharField(max_length=8, choices=MeterEventKind.choices)
    reason = models.CharField(max_length=17, choices=MeterAnomalyReason.choices)
    at = models.DateTimeField()
    recorded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "kind", "reason", "at"], name="meter_anomaly_noted_once"
            ),
            models.CheckConstraint(
                condition=Q(reason__in=["conflict", "clock_ahead", "ends_before_start"]),
                name="meter_anomaly_reason_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reason} of {self.attempt_id}"


class UsageSegment(models.Model):
    """An attempt's use of `guaranteed_mgpu` + `borrowed_mgpu` during `[start, end)`.

    It is a pure fold of the attempt's meter events and unpaid use, and is rewritten when one of
    them arrives. An empty end means that the attempt still runs.

    `unpaid_mgpu` is the part of `borrowed_mgpu` that no credits paid. Where `fault` has a reason,
    the whole segment costs nothing. So each milli-GPU-second has exactly one `UsageClass`.
    """

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(MeteredAttempt, models.PROTECT, related_name="segments")
    start = models.DateTimeField()
    end = models.DateTimeField(null=True)
    guaranteed_mgpu = models.BigIntegerField()
    borrowed_mgpu = models.BigIntegerField()
    unpaid_mgpu = models.BigIntegerField(default=0, db_default=0)
    fault = models.CharField(
        max_length=11, choices=FaultReason.choices, blank=True, default="", db_default=""
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(end=None) | Q(end__gt=F("start")), name="segment_has_a_length"
            ),
            models.CheckConstraint(
                condition=Q(fault="", unpaid_mgpu__gte=0, unpaid_mgpu__lte=F("borrowed_mgpu"))
                | Q(fault__in=["node_failed", "lost", "preempted"], unpaid_mgpu=0),
                name="segment_has_one_class_for_each_gpu",
            ),
            models.CheckConstraint(
                condition=Q(guaranteed_mgpu__gte=0, borrowed_mgpu__gte=0),
                name="segment_holds_something",
            ),
            ExclusionConstraint(
                name="segment_counts_a_second_once",
                expressions=[
                    ("attempt", RangeOperators.EQUAL),
                    (
                        Func("start", "end", RangeBoundary(), function="TSTZRANGE"),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
        ]
        indexes = [
            # As in `billing.usage_sql.used_in_sql`.
            GistIndex(Func("start", "end", function="TSTZRANGE"), name="segment_by_time"),
            models.Index(fields=["start"], name="segment_by_start"),
            models.Index(fields=["end"], name="segment_by_end"),
        ]

    def __str__(self) -> str:
        return f"segment of {self.attempt_id} from {self.start:%Y-%m-%dT%H:%M:%SZ}"


class UnpaidUse(models.Model):
    """Borrowed use of `mgpu` during `[start, end)` that a settlement of credits left unpaid.

    A new settlement of the same time replaces it. The fold cuts it to what the attempt borrowed.
    """

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(MeteredAttempt, models.PROTECT, related_name="unpaid_uses")
    start = models.DateTimeField()
    end = models.DateTimeField()
    mgpu = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(end__gt=F("start"), mgpu__gt=0), name="unpaid_use_is_some"
            ),
            ExclusionConstraint(
                name="unpaid_use_counts_a_second_once",
                expressions=[
                    ("attempt", RangeOperators.EQUAL),
                    (
                        Func("start", "end", RangeBoundary(), function="TSTZRANGE"),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"unpaid use of {self.attempt_id} from {self.start:%Y-%m-%dT%H:%M:%SZ}"


class ChangedUse(models.Model):
    """Late news: the use of a pool during `[start, end)` is other than recorded before.

    `fault` is its reason where the news is a fault. The bank settles that time anew and deletes the
    row.
    """

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(MeteredAttempt, models.PROTECT, related_name="+")
    start = models.DateTimeField()
    end = models.DateTimeField()
    fault = models.CharField(max_length=11, choices=FaultReason.choices, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(end__gt=F("start")), name="changed_use_is_some"),
        ]

    def __str__(self) -> str:
        return f"changed use of {self.attempt_id} from {self.start:%Y-%m-%dT%H:%M:%SZ}"


class DecayedUse(models.Model):
    """Use of a pool by a user's attempts in a team until `DecayedUntil.at`.

    In decayed milli-GPU-seconds (`billing.fair_use`). It is never charged.
    """

    team = models.ForeignKey(Node, models.CASCADE, related_name="+")
    user = models.ForeignKey(User, models.CASCADE, related_name="+")
    pool = models.ForeignKey(Pool, models.CASCADE, related_name="+")
    mgpu_s = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "user", "pool"], name="decayed_use_once_per_team_user_and_pool"
            ),
            models.CheckConstraint(condition=Q(mgpu_s__gt=0), name="decayed_use_is_some"),
        ]

    def __str__(self) -> str:
        return f"decayed use of {self.pool} by {self.user} in {self.team}"


class LateUse(models.Model):
    """A late correction: an attempt used `mgpu` more during `[start, end)` than recorded.

    Negative for less. `DecayedUse` may include the old value already. The row stays until that is
    corrected.
    """

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(MeteredAttempt, models.CASCADE, related_name="+")
    start = models.DateTimeField()
    end = models.DateTimeField()
    mgpu = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(end__gt=F("start")) & ~Q(mgpu=0), name="late_use_is_some"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.mgpu} of {self.attempt_id} from {self.start:%Y-%m-%dT%H:%M:%SZ}"


class DecayedUntil(models.Model):
    """The time of all rows of `DecayedUse`. The table has one row."""

    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"decayed until {self.at:%Y-%m-%dT%H:%M:%SZ}"


class RateCard(models.Model):
    """An organization's prices, in one currency."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.OneToOneField(Node, models.PROTECT, related_name="rate_card")
    currency = models.CharField(max_length=3)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(currency__regex=r"\A[A-Z]{3}\Z"), name="rate_card_currency_is_iso_4217"
            ),
        ]

    def __str__(self) -> str:
        return f"rate card of {self.organization}"


class UsageClass(models.TextChoices):
    """The class of a GPU-second, which has its price.

    `guaranteed` is inside the team's guarantee. `borrowed` is above it and paid by credits, where
    the credit bank is on. `unpaid` is above it without credits. `fault` is use that a fault of the
    cluster or an early preemption made worthless; it costs nothing.
    """

    GUARANTEED = "guaranteed"
    BORROWED = "borrowed"
    UNPAID = "unpaid"
    FAULT = "fault"


class ExtraCharge(models.TextChoices):
    """A charge beside use.

    `commitment` is the guarantee of a pool in that mode. `top_up` is the rest of a minimum or an
    increment at the end of an attempt.
    """

    COMMITMENT = "commitment"
    TOP_UP = "top_up"


#: Classes in which a job holds GPUs. The other classes become known later.
HELD_CLASSES = (UsageClass.GUARANTEED, UsageClass.BORROWED)
#: Classes that may have a price. `unpaid` costs as much as `borrowed` where it has none.
PRICED_CLASSES = (*HELD_CLASSES, UsageClass.UNPAID)


class DatedWords(NamedTuple):
    """The words for a rule: "a price", "that price"."""

    indefinite: str
    definite: str


class Dated(models.Model):
    """A rule of a rate card for a pool during `[start, end)`. An empty end means "no end yet".

    The database refuses two rules for one time, and changes other than of the end. It also refuses
    an end that moves from or into the past, and to delete a rule that has started. `added_by`
    added it at `added_at`: a later time than `start` makes it a correction. Both are empty for
    prices of older versions.
    """

    #: The kind of the rule in the audit log, and its words in sentences.
    action: ClassVar[str]
    words: ClassVar[DatedWords]

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+")
    start = models.DateTimeField()
    end = models.DateTimeField(null=True)
    added_at = models.DateTimeField(null=True)
    added_by = models.CharField(max_length=200, blank=True)

    class Meta:
        abstract = True

    @property
    def subject(self) -> str:
        """Return what the rule is for, for a sentence."""
        raise NotImplementedError

    def detail(self) -> dict[str, object]:
        """Return the values of the rule for the audit log."""
        raise NotImplementedError

    @property
    def is_correction(self) -> bool:
        """Return whether the rule was added after it had started to apply."""
        return self.added_at is not None and self.start < self.added_at


class RateLine(Dated):
    """Price of one GPU-hour of `pool` in `usage_class`, in nano-currency."""

    action = "rate_line"
    words = DatedWords("a price", "that price")

    card = models.ForeignKey(RateCard, models.PROTECT, related_name="lines")
    usage_class = models.CharField(max_length=10, choices=UsageClass.choices)
    price_nano = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(price_nano__gte=0), name="rate_price_is_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(usage_class__in=["guaranteed", "borrowed", "unpaid"]),
                name="rate_usage_class_is_known",
            ),
            models.CheckConstraint(
                condition=Q(end=None) | Q(end__gt=F("start")), name="rate_line_has_a_length"
            ),
            ExclusionConstraint(
                name="rate_has_one_price_at_a_time",
                expressions=[
                    ("card", RangeOperators.EQUAL),
                    ("pool", RangeOperators.EQUAL),
                    ("usage_class", RangeOperators.EQUAL),
                    (
                        Func("start", "end", RangeBoundary(), function="TSTZRANGE"),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.usage_class} {self.pool} from {self.start:%Y-%m-%d}"

    @property
    def subject(self) -> str:
        """Return the usage class and the pool."""
        return f"{self.usage_class} {self.pool.name}"

    def detail(self) -> dict[str, object]:
        """Return the pool, the class and the price."""
        return {
            "pool": self.pool.name,
            "usage_class": str(self.usage_class),
            "price_nano": self.price_nano,
        }


class PriceMode(models.TextChoices):
    """The way in which the use of a pool is billed.

    `pay_per_use` bills what was used. `commitment` bills the guarantee at its price, used or not,
    and use inside the guarantee costs no more. `showback` reports costs and bills nothing.
    """

    PAY_PER_USE = "pay_per_use"
    COMMITMENT = "commitment"
    SHOWBACK = "showback"


#: The longest minimum and increment of an attempt: a day.
BILLED_S_MAX = 86_400


class PoolTerms(Dated):
    """The way in which the use of a pool becomes an amount.

    The price of a usage class is multiplied by its multiplier, in millionths. An attempt is billed
    for at least `minimum_s`, and for whole multiples of `increment_s`. A pool without terms is
    pay-per-use, with multipliers of 1, no minimum, and billed by the second.
    """

    action = "pool_terms"
    words = DatedWords("terms", "those terms")

    card = models.ForeignKey(RateCard, models.PROTECT, related_name="terms")
    mode = models.CharField(
        max_length=11, choices=PriceMode.choices, default=PriceMode.PAY_PER_USE.value
    )
    guaranteed_ppm = models.PositiveIntegerField(default=PPM)
    borrowed_ppm = models.PositiveIntegerField(default=PPM)
    unpaid_ppm = models.PositiveIntegerField(default=PPM)
    minimum_s = models.PositiveIntegerField(default=0)
    increment_s = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(mode__in=["pay_per_use", "commitment", "showback"]),
                name="terms_mode_is_known",
            ),
            models.CheckConstraint(
                condition=Q(
                    guaranteed_ppm__lte=PRICE_MULTIPLIER_PPM_MAX,
                    borrowed_ppm__lte=PRICE_MULTIPLIER_PPM_MAX,
                    unpaid_ppm__lte=PRICE_MULTIPLIER_PPM_MAX,
                ),
                name="terms_multipliers_are_sane",
            ),
            models.CheckConstraint(
                condition=Q(
                    minimum_s__lte=BILLED_S_MAX, increment_s__gte=1, increment_s__lte=BILLED_S_MAX
                ),
                name="terms_bill_at_most_a_day_more",
            ),
            models.CheckConstraint(
                condition=Q(end=None) | Q(end__gt=F("start")), name="terms_have_a_length"
            ),
            ExclusionConstraint(
                name="pool_has_one_mode_at_a_time",
                expressions=[
                    ("card", RangeOperators.EQUAL),
                    ("pool", RangeOperators.EQUAL),
                    (
                        Func("start", "end", RangeBoundary(), function="TSTZRANGE"),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.mode} {self.pool} from {self.start:%Y-%m-%d}"

    @property
    def subject(self) -> str:
        """Return the pool."""
        return self.pool.name

    def detail(self) -> dict[str, object]:
        """Return the pool and its terms."""
        return {
            "pool": self.pool.name,
            "mode": str(self.mode),
            "guaranteed_ppm": self.guaranteed_ppm,
            "borrowed_ppm": self.borrowed_ppm,
            "unpaid_ppm": self.unpaid_ppm,
            "minimum_s": self.minimum_s,
            "increment_s": self.increment_s,
        }
