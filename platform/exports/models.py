"""Requested files with charges, their progress and their manifests."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from django.db import models
from django.db.models import F, Func, Q
from django.db.models.lookups import GreaterThanOrEqual
from uuid_utils.compat import uuid7

from tenants.models import Node, User

PSEUDONYM_KEY_BYTES = 32
#: Differing lines that an audit keeps. It counts all of them.
DIFFERENCES_MAX = 100
#: Progress of a complete file.
PERMILLE = 1_000


class ExportState(models.TextChoices):
    """The state of an export. Only a `done` one has a file."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class ExportDataset(models.TextChoices):
    """The contents of a file."""

    CHARGES = "charges"
    #: As they were billed: the frozen rows of closed months.
    CLOSED_CHARGES = "closed_charges"
    FOCUS_COST_AND_USAGE = "focus_cost_and_usage"
    FOCUS_BILLING_PERIOD = "focus_billing_period"
    #: Commitments to guarantees, with what was bought of them in the month.
    FOCUS_CONTRACT_COMMITMENT = "focus_contract_commitment"
    #: The lines of issued statements and of credit notes.
    FOCUS_INVOICE_DETAIL = "focus_invoice_detail"


#: Datasets of FOCUS. Each file is of one month of the organization's time zone.
FOCUS_DATASETS = frozenset(
    {
        ExportDataset.FOCUS_COST_AND_USAGE,
        ExportDataset.FOCUS_BILLING_PERIOD,
        ExportDataset.FOCUS_CONTRACT_COMMITMENT,
        ExportDataset.FOCUS_INVOICE_DETAIL,
    }
)


class ExportFormat(models.TextChoices):
    """The format of a file. CSV and Parquet are exact; XLSX has 15 digits of a number.

    PDF is a report for people: sums by team, pool and usage class.
    """

    CSV = "csv"
    XLSX = "xlsx"
    PARQUET = "parquet"
    PDF = "pdf"


class UserNaming(models.TextChoices):
    """The names of users in a file."""

    #: A keyed hash, the same in all files of an organization; see `PseudonymKey`.
    PSEUDONYMS = "pseudonyms"
    #: Login names.
    NAMES = "names"


class Export(models.Model):
    """A file with the charges of a node and everything below it, during `[start, end)`.

    `time_zone` is the organization's at the request, and so is the choice of `users`. A file
    without users has an empty one. `node_path` is as requested, with its last slash. Use that has
    not ended counts until `as_of`.
    An empty `pool` means all. A worker that writes the file updates `seen_at`; another one starts
    again where that is too old. `message` says why it failed. `manifest` is None until it is done.
    `removed_at` is when its file was deleted; all else stays.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    node_path = models.CharField(max_length=1_024)
    requested_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    dataset = models.CharField(max_length=32, choices=ExportDataset.choices)
    format = models.CharField(max_length=8, choices=ExportFormat.choices)
    start = models.DateTimeField()
    end = models.DateTimeField()
    time_zone = models.CharField(max_length=64, default="UTC")
    as_of = models.DateTimeField()
    pool = models.CharField(max_length=63, blank=True)
    users = models.CharField(max_length=10, choices=UserNaming.choices, blank=True)
    state = models.CharField(max_length=8, choices=ExportState.choices, default=ExportState.QUEUED)
    progress_permille = models.PositiveIntegerField(default=0)
    tries = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    message = models.CharField(max_length=500, blank=True)
    size_bytes = models.BigIntegerField(null=True)
    sha256 = models.CharField(max_length=64, blank=True)
    manifest = models.JSONField(null=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running", "done", "failed"]),
                name="export_state_is_known",
            ),
            models.CheckConstraint(
                condition=Q(format__in=["csv", "xlsx", "parquet", "pdf"]),
                name="export_format_is_known",
            ),
            models.CheckConstraint(
                condition=Q(end__gt=F("start")), name="export_period_has_a_length"
            ),
            models.CheckConstraint(
                condition=Q(progress_permille__lte=PERMILLE), name="export_progress_is_a_share"
            ),
            models.CheckConstraint(
                condition=Q(state="done", size_bytes__gte=0, ended_at__isnull=False)
                & Q(manifest__isnull=False, sha256__regex=r"\A[0-9a-f]{64}\Z")
                | ~Q(state="done") & Q(size_bytes=None, manifest__isnull=True, sha256=""),
                name="export_has_a_file_when_done",
            ),
            models.CheckConstraint(
                condition=Q(removed_at=None) | Q(state="done"),
                name="only_a_file_is_removed",
            ),
            models.CheckConstraint(
                condition=Q(state="failed") & ~Q(message="") | ~Q(state="failed") & Q(message=""),
                name="export_says_why_it_failed",
            ),
            models.CheckConstraint(
                condition=Q(users__in=["pseudonyms", "names"])
                | Q(users="") & ~Q(dataset="focus_cost_and_usage"),
                name="export_says_how_it_names_users",
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"], condition=Q(state__in=["queued", "running"]), name="export_to_write"
            ),
        ]

    def __str__(self) -> str:
        return f"export {self.id}"

    @property
    def file_name(self) -> str:
        """Return the name under which people store the file, with days of its time zone."""
        place = self.node_path.rstrip("/").replace("/", "-")
        zone = ZoneInfo(self.time_zone)
        days = "-".join(f"{one.astimezone(zone):%Y%m%d}" for one in (self.start, self.end))
        return f"{self.dataset}-{place}-{days}.{self.format}"


class PseudonymKey(models.Model):
    """The key by which users of an organization are pseudonyms in its FOCUS files.

    It stays, so that a user has the same pseudonym in all files. It never leaves the database.
    """

    organization = models.OneToOneField(Node, models.PROTECT, primary_key=True, related_name="+")
    key = models.BinaryField(max_length=PSEUDONYM_KEY_BYTES)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    GreaterThanOrEqual(
                        Func("key", function="octet_length", output_field=models.IntegerField()),
                        PSEUDONYM_KEY_BYTES,
                    )
                ),
                name="pseudonym_key_is_long_enough",
            ),
        ]

    def __str__(self) -> str:
        return f"pseudonym key of {self.organization}"


class ExportPolicy(models.Model):
    """The organization's choice how new files of FOCUS name users.

    `changed_by` changed it last.
    """

    organization = models.OneToOneField(Node, models.PROTECT, primary_key=True, related_name="+")
    users = models.CharField(
        max_length=10, choices=UserNaming.choices, default=UserNaming.PSEUDONYMS
    )
    changed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    changed_at = models.DateTimeField(null=True)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(users__in=["pseudonyms", "names"]), name="user_naming_is_known"
            ),
            models.CheckConstraint(
                condition=Q(changed_by=None, changed_at=None, users="pseudonyms")
                | Q(changed_by__isnull=False, changed_at__isnull=False),
                name="user_naming_remembers_its_last_change",
            ),
        ]

    def __str__(self) -> str:
        return f"export policy of {self.organization}"


class ChargeAudit(models.Model):
    """The audit of an organization's month by the worker. Append-only.

    `month` is its first day. `difference_count` of `line_count` sums differ, together by
    `difference_mgpu_s` and `difference_nano`, without their signs. `differences` are the first
    `DIFFERENCES_MAX` of them, as `AuditedLine`.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    month = models.DateField()
    audited_at = models.DateTimeField()
    line_count = models.PositiveIntegerField()
    difference_count = models.PositiveIntegerField()
    difference_mgpu_s = models.BigIntegerField()
    difference_nano = models.BigIntegerField()
    differences = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(difference_count=0, difference_mgpu_s=0, difference_nano=0)
                & Q(differences=[])
                | Q(difference_count__gt=0, difference_count__lte=F("line_count"))
                & Q(difference_mgpu_s__gte=0, difference_nano__gte=0)
                & (Q(difference_mgpu_s__gt=0) | Q(difference_nano__gt=0)),
                name="charge_audit_adds_up",
            ),
        ]
        indexes = [
            models.Index(fields=["organization", "month", "-id"], name="charge_audit_by_month"),
        ]

    def __str__(self) -> str:
        return f"audit of {self.month:%Y-%m} of {self.organization_id}"


class DeliveryFrequency(models.TextChoices):
    """The time of a delivery."""

    #: Once a month is closed: the whole month.
    MONTHLY = "monthly"
    #: After each day of the organization's time zone: its month until then.
    DAILY = "daily"


class DeliverySchedule(models.Model):
    """An order to deliver files of an organization to a target of the operator's settings.

    The rights of `created_by` count for each file. An ended schedule delivers nothing more.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    dataset = models.CharField(max_length=32, choices=ExportDataset.choices)
    format = models.CharField(max_length=8, choices=ExportFormat.choices)
    frequency = models.CharField(max_length=7, choices=DeliveryFrequency.choices)
    target = models.CharField(max_length=32)
    created_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "dataset", "format", "frequency", "target"],
                condition=Q(ended_at=None),
                name="file_is_delivered_once",
            ),
            models.CheckConstraint(
                condition=Q(frequency__in=["monthly", "daily"]), name="frequency_is_known"
            ),
            models.CheckConstraint(condition=~Q(target=""), name="delivery_has_a_target"),
        ]

    def __str__(self) -> str:
        return f"{self.frequency} {self.dataset} of {self.organization} to {self.target}"


class DeliveryState(models.TextChoices):
    """The state of a delivery."""

    #: The file is not written yet, or the target is tried again at `next_at`.
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


class Delivery(models.Model):
    """A file that a schedule delivers: of the month that has the day `due_on`, or begins with it.

    `tries` counts failed attempts, and `message` has the last error. A repeated delivery replaces
    the file at the target. `sha256` is that of the delivered file.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    schedule = models.ForeignKey(DeliverySchedule, models.PROTECT, related_name="deliveries")
    due_on = models.DateField()
    export = models.ForeignKey(Export, models.SET_NULL, null=True, related_name="+")
    state = models.CharField(
        max_length=7, choices=DeliveryState.choices, default=DeliveryState.WAITING
    )
    created_at = models.DateTimeField()
    next_at = models.DateTimeField()
    tries = models.PositiveIntegerField(default=0)
    message = models.CharField(max_length=500, blank=True)
    delivered_at = models.DateTimeField(null=True)
    sha256 = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["schedule", "due_on"], name="day_is_delivered_once"),
            models.CheckConstraint(
                condition=Q(state="waiting")
                | Q(state="done", delivered_at__isnull=False, message="")
                & Q(sha256__regex=r"\A[0-9a-f]{64}\Z")
                | Q(state="failed") & ~Q(message=""),
                name="delivery_says_how_it_ended",
            ),
        ]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(state="waiting"), name="delivery_to_make"),
        ]

    def __str__(self) -> str:
        return f"{self.schedule} for {self.due_on}"
