"""Quota per tree node and pool, its history, the organization's policy and priority classes."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from clusters.models import Cluster, Pool
from primitives.units import BASIS_POINTS, MGPU_MAX, PPM
from tenants.models import Node, User


class Quota(models.Model):
    """A node's entitlement in one pool (semantics: guaranteed, lend limit, borrow limit, weight).

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


class OrganizationPolicy(models.Model):
    """The organization's rules: who gets spare GPUs first, and how long a notice is.

    `rank` lists node paths, first served first; nodes not listed come after all that are.
    """

    organization = models.OneToOneField(Node, models.PROTECT, primary_key=True)
    rank = models.JSONField(default=list)
    grace_period_s = models.PositiveIntegerField(default=300)
    fair_share_half_life_s = models.PositiveIntegerField(default=7 * 86_400)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(grace_period_s__lte=86_400), name="policy_grace_is_at_most_a_day"
            ),
        ]

    def __str__(self) -> str:
        return f"policy of {self.organization}"


class PriorityClass(models.Model):
    """An organization's priority class (semantics section 4); higher `order` is served first."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="priority_classes")
    name = models.CharField(max_length=63)
    order = models.IntegerField()
    preempts_within_team = models.BooleanField(default=False)
    grace_period_s = models.PositiveIntegerField(default=300)
    team_cap_mgpu = models.BigIntegerField(null=True)
    price_multiplier_ppm = models.PositiveIntegerField(default=PPM)
    description = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "name"], name="priority_class_once_per_organization"
            ),
            models.CheckConstraint(
                condition=Q(team_cap_mgpu=None) | Q(team_cap_mgpu__gte=0),
                name="priority_class_cap_is_not_negative",
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
