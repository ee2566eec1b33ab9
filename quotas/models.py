"""Quota per tree node and pool, its history, the organization's policy and priority classes."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from arbiter.api.policy import GRACE_PERIOD_S_MAX, RANGES, Policy, SpareOrder
from clusters.models import Cluster, Pool
from primitives.units import BASIS_POINTS, MGPU_MAX, PPM
from tenants.models import Node, User

#: What holds for all, and for an organization until it says something else.
_INSTALLATION = Policy()

#: From and up to where the installation's numbers may go. A cycle that may start or stop nobody
#: at all would keep no promise.
INSTALLATION_RANGES = {
    "grace_period_s_max": RANGES["grace_period_s_default"],
    "starts_max": (1, RANGES["starts_max"][1]),
    "reclaims_max": (1, RANGES["reclaims_max"][1]),
    **{
        name: RANGES[name]
        for name in (
            "claim_overdue_s",
            "credit_floor_s",
            "reservations_max",
            "reservation_horizon_s",
            "min_run_s",
            "preemptions_max",
            "costly_loss_s",
        )
    },
}


#: A priority class is served by its order, up to here.
CLASS_ORDER_MAX = 1_000_000
#: A priority class costs at most so many times the price.
PRICE_MULTIPLIER_PPM_MAX = 100 * PPM


class Quota(models.Model):
    """A node's entitlement in one pool: guarantee, lend limit, borrow limit, weight (R-6).

    Limits of null are "no limit of its own". `guaranteed_bp` keeps a guarantee that was written
    as a percentage of the parent (basis points); `guaranteed_mgpu` is what it resolved to.
    The database refuses children that sum to more than their parent (deferred trigger
    `quota_children_fit_in_their_parent`). `version` counts changes and is the ETag.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    node = models.ForeignKey(Node, models.PROTECT, related_name="quotas")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="quotas")
    guaranteed_mgpu = models.BigIntegerField()
    guaranteed_bp = models.IntegerField(null=True)
    lend_limit_mgpu = models.BigIntegerField(null=True)
    borrow_limit_mgpu = models.BigIntegerField(null=True)
    weight = models.IntegerField(default=100)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "pool"], name="quota_once_per_node_and_pool"),
            models.CheckConstraint(
                condition=Q(guaranteed_mgpu__gte=0, guaranteed_mgpu__lte=MGPU_MAX),
                name="quota_guarantee_is_sane",
            ),
            models.CheckConstraint(
                condition=Q(guaranteed_bp=None)
                | Q(guaranteed_bp__gte=0, guaranteed_bp__lte=BASIS_POINTS),
                name="quota_percentage_is_at_most_all",
            ),
            models.CheckConstraint(
                condition=Q(lend_limit_mgpu=None)
                | Q(lend_limit_mgpu__gte=0, lend_limit_mgpu__lte=F("guaranteed_mgpu")),
                name="quota_lends_at_most_its_guarantee",
            ),
            models.CheckConstraint(
                condition=Q(borrow_limit_mgpu=None)
                | Q(borrow_limit_mgpu__gte=0, borrow_limit_mgpu__lte=MGPU_MAX),
                name="quota_borrow_limit_is_sane",
            ),
            models.CheckConstraint(
                condition=Q(weight__gte=1, weight__lte=1_000_000), name="quota_weight_is_sane"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool} of {self.node}"


class QuotaChange(models.Model):
    """Who changed a quota, when, from what, to what, and why. Append-only."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    quota = models.ForeignKey(Quota, models.PROTECT, related_name="changes")
    at = models.DateTimeField()
    actor = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    before = models.JSONField(null=True)
    after = models.JSONField()
    reason = models.CharField(max_length=500)

    def __str__(self) -> str:
        return f"{self.quota} at {self.at:%Y-%m-%dT%H:%M:%SZ}"


class PlannedStatus(models.TextChoices):
    """Where a planned change stands; all but draft, scheduled and applied are final, and so is
    applied where nothing is to be taken back."""

    DRAFT = "draft"
    SCHEDULED = "scheduled"
    APPLIED = "applied"
    REVERTED = "reverted"
    KEPT = "kept"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


_EDITABLE = (
    "guaranteed_mgpu",
    "guaranteed_bp",
    "borrow_limit_mgpu",
    "lend_limit_mgpu",
    "weight",
)
_DECIDED = ("scheduled", "applied", "reverted", "kept", "failed")
_WAS_APPLIED = ("applied", "reverted", "kept")


class PlannedChange(models.Model):
    """Several edits of quotas that are drafted, looked at, and applied as one.

    A draft becomes scheduled (with `apply_at`) or applied when somebody with the rights to every
    edit decides so; `decided_by` is who, and on whose rights a scheduled one is applied. With
    `revert_after_s` the edits are taken back that long after, which ends it reverted, or kept where
    something else changed these quotas since; `note` says why it failed or was kept. `node` is the
    lowest node that all edits lie below: who sees the tree there sees the change.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    node = models.ForeignKey(Node, models.PROTECT, related_name="+")
    reason = models.CharField(max_length=500)
    status = models.CharField(
        max_length=9, choices=PlannedStatus.choices, default=PlannedStatus.DRAFT.value
    )
    created_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    apply_at = models.DateTimeField(null=True)
    revert_after_s = models.IntegerField(null=True)
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    applied_at = models.DateTimeField(null=True)
    revert_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    note = models.TextField(blank=True)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=PlannedStatus.values), name="planned_change_has_a_status"
            ),
            models.CheckConstraint(
                condition=Q(decided_by=None, decided_at=None) & ~Q(status__in=_DECIDED)
                | Q(decided_by__isnull=False, decided_at__isnull=False)
                & ~Q(status__in=("draft", "expired")),
                name="planned_change_was_decided_by_somebody",
            ),
            models.CheckConstraint(
                condition=~Q(status="scheduled") | Q(apply_at__isnull=False),
                name="planned_change_is_scheduled_for_a_time",
            ),
            models.CheckConstraint(
                condition=Q(applied_at__isnull=False, status__in=_WAS_APPLIED)
                | Q(applied_at=None) & ~Q(status__in=_WAS_APPLIED),
                name="planned_change_knows_when_it_was_applied",
            ),
            models.CheckConstraint(
                condition=Q(revert_at=None)
                | Q(revert_after_s__isnull=False, revert_at__gt=F("applied_at")),
                name="planned_change_is_reverted_after_it_was_applied",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=("reverted", "kept")) | Q(revert_at__isnull=False),
                name="planned_change_is_reverted_as_was_planned",
            ),
            models.CheckConstraint(
                condition=Q(ended_at=None, status__in=("draft", "scheduled", "applied"))
                | Q(ended_at__isnull=False) & ~Q(status__in=("draft", "scheduled", "applied")),
                name="planned_change_has_an_end_when_it_ended",
            ),
            models.CheckConstraint(
                condition=Q(revert_after_s=None)
                | Q(revert_after_s__gte=60, revert_after_s__lte=31_622_400),
                name="planned_change_lasts_a_minute_to_a_year",
            ),
        ]
        indexes = [
            models.Index(
                fields=["expires_at"], condition=Q(status="draft"), name="planned_to_expire"
            ),
            models.Index(
                fields=["apply_at"], condition=Q(status="scheduled"), name="planned_to_apply"
            ),
            models.Index(
                fields=["revert_at"], condition=Q(status="applied"), name="planned_to_revert"
            ),
        ]

    def __str__(self) -> str:
        return f"planned change of {self.node}"


class PlannedEdit(models.Model):
    """What a planned change sets of one quota: `values` as a change of a quota takes them.

    `before` are the quota's settings when the change was drafted, decided or, last, applied.
    """

    id = models.BigAutoField(primary_key=True)
    planned = models.ForeignKey(PlannedChange, models.PROTECT, related_name="edits")
    quota = models.ForeignKey(Quota, models.PROTECT, related_name="+")
    values = models.JSONField()
    before = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["planned", "quota"], name="quota_once_per_planned_change"
            ),
            models.CheckConstraint(
                condition=Q(values__has_any_keys=list(_EDITABLE)),
                name="planned_edit_sets_something",
            ),
            models.CheckConstraint(
                condition=~Q(values__has_keys=["guaranteed_mgpu", "guaranteed_bp"]),
                name="planned_edit_guarantees_one_way",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.quota} in {self.planned_id}"


class NodeUse(models.Model):
    """A node's standing in one pool as the last cycle left it, for pages and the API.

    Written by the arbiter only; it decides nothing (the arbiter counts attempts itself).
    """

    id = models.BigAutoField(primary_key=True)
    node = models.ForeignKey(Node, models.CASCADE, related_name="+")
    pool = models.ForeignKey(Pool, models.CASCADE, related_name="+")
    in_use_mgpu = models.BigIntegerField()
    protected_mgpu = models.BigIntegerField()
    borrowed_mgpu = models.BigIntegerField()
    lent_mgpu = models.BigIntegerField()
    available_mgpu = models.BigIntegerField()
    waiting_mgpu = models.BigIntegerField()
    as_of = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "pool"], name="use_once_per_node_and_pool"),
        ]

    def __str__(self) -> str:
        return f"use of {self.pool} by {self.node}"


class InstallationPolicy(models.Model):
    """What holds for all organizations alike, since they share pools and cycles: one row.

    `grace_period_s_max` cuts what organizations and their classes give: a guarantee is kept a
    grace after it was asked for, whoever has to stop for it. `min_run_s` and `preemptions_max`
    count where one organization takes its GPUs back from another. The others: see
    `arbiter.api.policy.Policy`. `version` counts changes and is the ETag.
    """

    grace_period_s_max = models.PositiveIntegerField(default=GRACE_PERIOD_S_MAX)
    starts_max = models.PositiveIntegerField(default=_INSTALLATION.starts_max)
    reclaims_max = models.PositiveIntegerField(default=_INSTALLATION.reclaims_max)
    claim_overdue_s = models.PositiveIntegerField(default=_INSTALLATION.claim_overdue_s)
    credit_floor_s = models.PositiveIntegerField(default=_INSTALLATION.credit_floor_s)
    reservations_max = models.PositiveIntegerField(default=_INSTALLATION.reservations_max)
    reservation_horizon_s = models.PositiveIntegerField(default=_INSTALLATION.reservation_horizon_s)
    min_run_s = models.PositiveIntegerField(default=_INSTALLATION.min_run_s)
    preemptions_max = models.PositiveIntegerField(default=_INSTALLATION.preemptions_max)
    costly_loss_s = models.PositiveIntegerField(default=_INSTALLATION.costly_loss_s)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="installation_has_one_policy"),
            *(
                models.CheckConstraint(
                    condition=Q(**{f"{name}__gte": low, f"{name}__lte": high}),
                    name=f"installation_{name}_is_in_range",
                )
                for name, (low, high) in INSTALLATION_RANGES.items()
            ),
        ]

    def __str__(self) -> str:
        return "policy of the installation"


class OrganizationPolicy(models.Model):
    """The organization's rules: who gets spare GPUs first, how long a notice is, and who is spared.

    `rank` lists node paths, first served first; nodes not listed come after all that are.
    `spare_order`, `min_run_s`, `preemptions_max` and `skips_blocked_within_team`: see
    `arbiter.api.policy.Policy`. `time_zone` is an IANA name, which the arbiter does not read.
    `version` counts changes and is the ETag.
    """

    organization = models.OneToOneField(Node, models.PROTECT, primary_key=True)
    rank = models.JSONField(default=list)
    grace_period_s = models.PositiveIntegerField(default=300)
    fair_share_half_life_s = models.PositiveIntegerField(default=7 * 86_400)
    spare_order = models.CharField(
        max_length=32,
        choices=[(order.value, order.value) for order in SpareOrder],
        default=_INSTALLATION.spare_order.value,
    )
    min_run_s = models.PositiveIntegerField(default=_INSTALLATION.min_run_s)
    preemptions_max = models.PositiveIntegerField(default=_INSTALLATION.preemptions_max)
    skips_blocked_within_team = models.BooleanField(default=_INSTALLATION.skips_blocked_within_team)
    time_zone = models.CharField(max_length=64, default="UTC")
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(time_zone__regex=r"\A[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*\Z"),
                name="policy_time_zone_is_plain",
            ),
            models.CheckConstraint(
                condition=Q(grace_period_s__lte=86_400), name="policy_grace_is_at_most_a_day"
            ),
            models.CheckConstraint(
                condition=Q(
                    fair_share_half_life_s__gte=3_600, fair_share_half_life_s__lte=315_360_000
                ),
                name="policy_half_life_is_an_hour_at_least",
            ),
            models.CheckConstraint(
                condition=Q(spare_order__in=[order.value for order in SpareOrder]),
                name="policy_spare_order_is_known",
            ),
            models.CheckConstraint(
                condition=Q(min_run_s__lte=86_400), name="policy_spares_for_a_day_at_most"
            ),
            models.CheckConstraint(
                condition=Q(preemptions_max__gte=1, preemptions_max__lte=1_000),
                name="policy_spares_after_one_preemption_at_least",
            ),
        ]

    def __str__(self) -> str:
        return f"policy of {self.organization}"


class PriorityClass(models.Model):
    """An organization's priority class (R-34); higher `order` is served first.

    Preempting across teams goes up to the cap, so it needs one. A retired class takes no new jobs.
    `version` counts changes and is the ETag.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="priority_classes")
    name = models.CharField(max_length=63)
    order = models.IntegerField()
    preempts_within_team = models.BooleanField(default=False)
    preempts_across_teams = models.BooleanField(default=False)
    grace_period_s = models.PositiveIntegerField(default=300)
    team_cap_mgpu = models.BigIntegerField(null=True)
    price_multiplier_ppm = models.PositiveIntegerField(default=PPM)
    description = models.CharField(max_length=200, blank=True)
    is_retired = models.BooleanField(default=False)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "name"], name="priority_class_once_per_organization"
            ),
            models.CheckConstraint(
                condition=Q(order__gte=0, order__lte=CLASS_ORDER_MAX),
                name="priority_class_order_is_sane",
            ),
            models.CheckConstraint(
                condition=Q(grace_period_s__lte=86_400),
                name="priority_class_grace_is_at_most_a_day",
            ),
            models.CheckConstraint(
                condition=Q(price_multiplier_ppm__lte=PRICE_MULTIPLIER_PPM_MAX),
                name="priority_class_price_is_at_most_hundredfold",
            ),
            models.CheckConstraint(
                condition=Q(team_cap_mgpu=None) | Q(team_cap_mgpu__gte=0),
                name="priority_class_cap_is_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(preempts_across_teams=False) | Q(team_cap_mgpu__isnull=False),
                name="priority_class_preempts_across_teams_up_to_a_cap",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ClusterUser(models.Model):
    """The name of a portal's user on a cluster that has users of its own.

    `name` belongs to one user of the portal only.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="users")
    user = models.ForeignKey(User, models.PROTECT, related_name="+")
    name = models.CharField(max_length=32)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "user"], name="user_has_one_name_there"),
            models.UniqueConstraint(fields=["cluster", "name"], name="name_is_of_one_user"),
            models.CheckConstraint(
                condition=Q(name__regex=r"\A[a-z_][a-z0-9_-]{0,31}\Z") & ~Q(name="root"),
                name="cluster_user_is_a_person",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} on {self.cluster}"


class UserNumber(models.Model):
    """The UNIX user number of a portal's user on every local cluster; never anybody else's."""

    user = models.OneToOneField(User, models.PROTECT, primary_key=True, related_name="+")
    number = models.PositiveIntegerField(unique=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                # Not root, nor what systems give to their services.
                condition=Q(number__gte=1_000, number__lt=1 << 31),
                name="user_number_is_nobody_of_the_system",
            ),
        ]

    def __str__(self) -> str:
        return str(self.number)


class QuotaPushKind(models.TextChoices):
    """What is asked of a cluster that keeps limits of its own."""

    CHECK = "check"
    DRY_RUN = "dry_run"
    PUSH = "push"
    ACCEPT = "accept"


class QuotaPushStatus(models.TextChoices):
    """Where a request stands; a cluster that does not answer keeps it waiting."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


class QuotaPush(models.Model):
    """The tree and a cluster's limits compared, and made equal or accepted, at one moment.

    Carried out by the observer. `changes` are the differences (the first 1,000; `change_count`
    has all) with what became of each; `subjects` cut an acceptance to some of them. Nobody
    requested a check that the observer makes by itself.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="quota_pushes")
    kind = models.CharField(max_length=8, choices=QuotaPushKind.choices)
    subjects = models.JSONField(default=list)
    requested_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    requested_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True)
    status = models.CharField(
        max_length=7,
        choices=QuotaPushStatus.choices,
        default=QuotaPushStatus.WAITING.value,
    )
    changes = models.JSONField(default=list)
    change_count = models.IntegerField(default=0)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status="waiting", done_at=None)
                | (~Q(status="waiting") & Q(done_at__isnull=False)),
                name="quota_push_has_an_end_when_it_ended",
            ),
        ]
        indexes = [models.Index(fields=["cluster", "-id"], name="quota_push_by_cluster")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.cluster}"


class AcceptedDifference(models.Model):
    """A difference that an administrator lets stand: `setting` of `subject` may stay `before`
    instead of `after`. It holds for exactly these two values."""

    id = models.BigAutoField(primary_key=True)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    subject = models.CharField(max_length=400)
    setting = models.CharField(max_length=100)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    push = models.ForeignKey(QuotaPush, models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "subject", "setting"],
                name="difference_accepted_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.setting} of {self.subject} on {self.cluster}"
