"""Quota per tree node and pool, its history, policies and priority classes."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from arbiter.api.policy import GRACE_PERIOD_S_MAX, RANGES, Policy, SpareOrder
from clusters.models import Cluster, Pool
from primitives.units import BASIS_POINTS, MGPU_MAX, PPM
from quotas.second_person_models import SecondPersonPolicy as SecondPersonPolicy
from tenants.models import Node, User

#: Defaults of the installation, and of an organization without a policy of its own.
_INSTALLATION = Policy()

#: Ranges of the installation's numbers. With 0 starts or reclaims per cycle, no guarantee could be
#: fulfilled.
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


#: The settings of a quota.
QUOTA_SETTINGS = (
    "guaranteed_mgpu",
    "guaranteed_bp",
    "borrow_limit_mgpu",
    "lend_limit_mgpu",
    "weight",
)
#: Highest priority value of a class.
CLASS_ORDER_MAX = 1_000_000
#: Highest price of a priority class, as a multiple of the normal price.
PRICE_MULTIPLIER_PPM_MAX = 100 * PPM
#: How much of a use counts for fair-share, in percent: normally, and at most.
USE_FACTOR_NORMAL = 100
USE_FACTOR_MAX = 1_000


class Quota(models.Model):
    """A node's entitlement in one pool: guarantee, lend limit, borrow limit, weight (R-6).

    A limit of None means no limit of its own. `guaranteed_bp` stores a guarantee that was given as
    a percentage of the parent (basis points), and `guaranteed_mgpu` its resolved value. The
    database refuses children that sum to more than their parent (deferred trigger
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
    """A change of a quota: actor, time, old and new settings, and reason. Append-only.

    `is_decided` says that a second person approved it, or that it was made in an emergency.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    quota = models.ForeignKey(Quota, models.PROTECT, related_name="changes")
    at = models.DateTimeField()
    actor = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    before = models.JSONField(null=True)
    after = models.JSONField()
    reason = models.CharField(max_length=500)
    is_decided = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.quota} at {self.at:%Y-%m-%dT%H:%M:%SZ}"


class PlannedStatus(models.TextChoices):
    """The status of a planned change.

    All but draft, scheduled and applied are final. Applied is final without a planned revert.
    """

    DRAFT = "draft"
    SCHEDULED = "scheduled"
    APPLIED = "applied"
    REVERTED = "reverted"
    KEPT = "kept"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


_DECIDED = ("scheduled", "applied", "reverted", "kept", "failed")
_WAS_APPLIED = ("applied", "reverted", "kept")


class PlannedChange(models.Model):
    """Several edits of quotas that are drafted, previewed and applied together.

    A draft becomes scheduled (with `apply_at`) or applied when a user with the rights to all edits
    decides so. `decided_by` is that user, whose rights apply to a scheduled change. `is_decided`
    says that a second person approved it, or that it was made in an emergency. With
    `revert_after_s`, the edits are reverted after that time. Then the status is reverted, or kept
    if these settings changed meanwhile. `note` says why it failed or was kept. `node` is the lowest
    node above all edits: users who see the tree there see the change.
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
    is_decided = models.BooleanField(default=False)
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
    """The `values` that a planned change sets in one quota, in the form of a change of a quota.

    `before` are the quota's settings when the change was drafted, decided or, at last, applied.
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
                condition=Q(values__has_any_keys=list(QUOTA_SETTINGS)),
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
    """A node's use of one pool after the last cycle, for pages and the API.

    Only the arbiter writes it, and it never reads it, because it counts attempts itself.
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
    """The rules for all organizations, because they share pools and cycles. One row.

    `grace_period_s_max` limits the grace periods of organizations and classes. So a guarantee is
    fulfilled within that time, whichever job must stop. `min_run_s` and `preemptions_max` apply
    when one organization reclaims its GPUs from another. For the others see
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
    """An organization's rules: order of spare GPUs, length of a notice, and order of preemption.

    `rank` lists node paths, the first one served first. Nodes that are not listed come last. For
    `spare_order`, `min_run_s`, `preemptions_max` and `skips_blocked_within_team` see
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
    """An organization's priority class (R-34). A higher `order` means a higher priority.

    Preemption across teams is limited by the cap, so it requires one. A retired class accepts no
    new jobs. `version` counts changes and is the ETag.
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
    use_factor_percent = models.PositiveIntegerField(default=USE_FACTOR_NORMAL)
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
                condition=Q(use_factor_percent__lte=USE_FACTOR_MAX),
                name="priority_class_use_counts_at_most_tenfold",
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
    """The name of a portal's user on a cluster with its own users.

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
    """The UNIX user number of a portal's user on every local cluster. It is never reused."""

    user = models.OneToOneField(User, models.PROTECT, primary_key=True, related_name="+")
    number = models.PositiveIntegerField(unique=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                # Excludes root and the numbers of system services.
                condition=Q(number__gte=1_000, number__lt=1 << 31),
                name="user_number_is_nobody_of_the_system",
            ),
        ]

    def __str__(self) -> str:
        return str(self.number)


class QuotaPushKind(models.TextChoices):
    """The kind of a request to a cluster that has limits of its own."""

    CHECK = "check"
    DRY_RUN = "dry_run"
    PUSH = "push"
    ACCEPT = "accept"


class QuotaPushStatus(models.TextChoices):
    """The status of a request. It waits while the cluster does not answer."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


class QuotaPush(models.Model):
    """A comparison of the tree with a cluster's limits; they may also be pushed or accepted.

    The observer handles it. `changes` are the differences with their results (the first 1,000;
    `change_count` counts all). `subjects` limit an acceptance to some of them. `requested_by` is
    None for the observer's own checks.
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
    """A difference that an administrator accepted for exactly these two values.

    `setting` of `subject` may stay `before` instead of `after`.
    """

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


#: The longest time limit of a job: a year.
TIME_LIMIT_S_MAX = 31_536_000


class TimeLimit(models.Model):
    """The default and the longest time limit of jobs of one pool, tree node or class (R-114).

    Exactly one of `pool`, `node` and `priority_class` is set. That of a node is for the jobs of all
    teams below it. A limit of None means none of its own. `version` counts changes and is the ETag.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    pool = models.OneToOneField(Pool, models.PROTECT, null=True, related_name="+")
    node = models.OneToOneField(Node, models.PROTECT, null=True, related_name="+")
    priority_class = models.OneToOneField(
        PriorityClass, models.PROTECT, null=True, related_name="+"
    )
    default_s = models.IntegerField(null=True)
    longest_s = models.IntegerField(null=True)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(pool__isnull=False, node=None, priority_class=None)
                | Q(pool=None, node__isnull=False, priority_class=None)
                | Q(pool=None, node=None, priority_class__isnull=False),
                name="time_limit_is_of_one_owner",
            ),
            models.CheckConstraint(
                condition=Q(default_s__isnull=False) | Q(longest_s__isnull=False),
                name="time_limit_limits_something",
            ),
            models.CheckConstraint(
                condition=(
                    Q(default_s=None) | Q(default_s__gte=60, default_s__lte=TIME_LIMIT_S_MAX)
                )
                & (Q(longest_s=None) | Q(longest_s__gte=60, longest_s__lte=TIME_LIMIT_S_MAX)),
                name="time_limit_is_a_minute_to_a_year",
            ),
            models.CheckConstraint(
                condition=Q(default_s=None) | Q(longest_s=None) | Q(default_s__lte=F("longest_s")),
                name="time_limit_default_is_not_above_the_longest",
            ),
        ]

    def __str__(self) -> str:
        return f"time limit of {self.pool or self.node or self.priority_class}"


class UserCap(models.Model):
    """The most GPUs that one user of a team may use at once, in one pool or in all (R-110).

    With `user` None it is the default for each user of the team. The value of a person comes before
    the default of the same pool; a `cap_mgpu` of None there is no cap. `pool` None counts the GPUs
    of all pools together. `version` counts changes and is the ETag.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.ForeignKey(Node, models.PROTECT, related_name="+")
    user = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, related_name="+")
    cap_mgpu = models.BigIntegerField(null=True)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "user", "pool"],
                name="user_cap_once_for_user_and_pool",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(cap_mgpu__isnull=True, user__isnull=False)
                | Q(cap_mgpu__isnull=False, cap_mgpu__gte=0, cap_mgpu__lte=MGPU_MAX),
                name="user_cap_is_a_number_of_gpus",
            ),
        ]

    def __str__(self) -> str:
        return f"cap of {self.user or 'each user'} in {self.team}"
