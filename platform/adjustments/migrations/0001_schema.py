"""Adjustments of charges, disputes about them, and thresholds."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
-- Months close in another package, and no adjustment changes a closed one.
CREATE FUNCTION month_is_closed(uuid, date) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM periods_billingperiod p WHERE p.organization_id = $1 AND p.month = $2
    )
$$;

CREATE FUNCTION adjustment_refuses_closed_months() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF month_is_closed(NEW.organization_id, NEW.month) THEN
        RAISE EXCEPTION 'the month is closed and gets no more adjustments'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER adjustment_counts_in_an_open_month
    BEFORE INSERT OR UPDATE ON adjustments_adjustment
    FOR EACH ROW WHEN (NEW.status IN ('done', 'approved'))
    EXECUTE FUNCTION adjustment_refuses_closed_months();

CREATE FUNCTION refund_is_that_of_its_dispute() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM adjustments_dispute d
        WHERE d.id = NEW.dispute_id AND d.status = 'accepted'
            AND d.refund_nano = -NEW.amount_nano AND d.currency = NEW.currency
            AND d.team_id = NEW.team_id AND d.organization_id = NEW.organization_id
    ) THEN
        RAISE EXCEPTION 'a refund is the amount of an accepted dispute'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER refund_is_that_of_its_dispute
    BEFORE INSERT ON adjustments_adjustment
    FOR EACH ROW WHEN (NEW.dispute_id IS NOT NULL)
    EXECUTE FUNCTION refund_is_that_of_its_dispute();

CREATE FUNCTION decisions_refuse_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are decided once and stay', TG_TABLE_NAME
        USING ERRCODE = 'check_violation';
END
$$;
CREATE TRIGGER adjustment_is_decided_once
    BEFORE UPDATE ON adjustments_adjustment
    FOR EACH ROW WHEN (
        OLD.status <> 'pending'
        OR (OLD.id, OLD.organization_id, OLD.team_id, OLD.user_id, OLD.pool_id, OLD.dispute_id,
            OLD.is_correction, OLD.month, OLD.effective_at, OLD.amount_nano, OLD.currency,
            OLD.reason, OLD.asked_by_id, OLD.asked_at, OLD.expires_at)
           IS DISTINCT FROM
           (NEW.id, NEW.organization_id, NEW.team_id, NEW.user_id, NEW.pool_id, NEW.dispute_id,
            NEW.is_correction, NEW.month, NEW.effective_at, NEW.amount_nano, NEW.currency,
            NEW.reason, NEW.asked_by_id, NEW.asked_at, NEW.expires_at)
    ) EXECUTE FUNCTION decisions_refuse_changes();
CREATE TRIGGER adjustment_stays
    BEFORE DELETE ON adjustments_adjustment
    FOR EACH ROW EXECUTE FUNCTION decisions_refuse_changes();
CREATE TRIGGER adjustments_are_never_emptied
    BEFORE TRUNCATE ON adjustments_adjustment
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_history();
CREATE TRIGGER dispute_is_decided_once
    BEFORE UPDATE ON adjustments_dispute
    FOR EACH ROW WHEN (
        OLD.status <> 'open'
        OR (OLD.id, OLD.organization_id, OLD.team_id, OLD.attempt_id, OLD.charged_nano,
            OLD.currency, OLD.reason, OLD.asked_by_id, OLD.asked_at)
           IS DISTINCT FROM
           (NEW.id, NEW.organization_id, NEW.team_id, NEW.attempt_id, NEW.charged_nano,
            NEW.currency, NEW.reason, NEW.asked_by_id, NEW.asked_at)
    ) EXECUTE FUNCTION decisions_refuse_changes();
CREATE TRIGGER dispute_stays
    BEFORE DELETE ON adjustments_dispute
    FOR EACH ROW EXECUTE FUNCTION decisions_refuse_changes();
CREATE TRIGGER disputes_are_never_emptied
    BEFORE TRUNCATE ON adjustments_dispute
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_history();
"""
_NO_RULES = """
DROP TRIGGER disputes_are_never_emptied ON adjustments_dispute;
DROP TRIGGER dispute_stays ON adjustments_dispute;
DROP TRIGGER dispute_is_decided_once ON adjustments_dispute;
DROP TRIGGER adjustments_are_never_emptied ON adjustments_adjustment;
DROP TRIGGER adjustment_stays ON adjustments_adjustment;
DROP TRIGGER adjustment_is_decided_once ON adjustments_adjustment;
DROP FUNCTION decisions_refuse_changes();
DROP TRIGGER refund_is_that_of_its_dispute ON adjustments_adjustment;
DROP FUNCTION refund_is_that_of_its_dispute();
DROP TRIGGER adjustment_counts_in_an_open_month ON adjustments_adjustment;
DROP FUNCTION adjustment_refuses_closed_months();
DROP FUNCTION month_is_closed(uuid, date);
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("billing", "0008_attempts_have_a_job_type"),
        ("periods", "0001_schema"),
        ("clusters", "0003_jobs_may_reach_the_portal"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AdjustmentPolicy",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="tenants.node",
                    ),
                ),
                ("threshold_nano", models.BigIntegerField(default=1000000000000)),
                ("version", models.IntegerField(default=1)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("threshold_nano__gte", 0), ("threshold_nano__lte", 1000000000000000000)
                        ),
                        name="adjustment_threshold_is_in_range",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Dispute",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("charged_nano", models.BigIntegerField()),
                ("currency", models.CharField(max_length=3)),
                ("reason", models.CharField(max_length=500)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("accepted", "Accepted"),
                            ("declined", "Declined"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        max_length=9,
                    ),
                ),
                ("asked_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
                ("note", models.CharField(blank=True, max_length=500)),
                ("refund_nano", models.BigIntegerField(null=True)),
                (
                    "asked_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="billing.meteredattempt",
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Adjustment",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("is_correction", models.BooleanField(default=False)),
                ("month", models.DateField()),
                ("effective_at", models.DateTimeField()),
                ("amount_nano", models.BigIntegerField()),
                ("currency", models.CharField(max_length=3)),
                ("reason", models.CharField(max_length=500)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("done", "Done"),
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("withdrawn", "Withdrawn"),
                            ("expired", "Expired"),
                        ],
                        max_length=9,
                    ),
                ),
                ("asked_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("note", models.CharField(blank=True, max_length=500)),
                (
                    "asked_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "dispute",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="refund",
                        to="adjustments.dispute",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("charged_nano__gt", 0), models.Q(("reason", ""), _negated=True)
                ),
                name="dispute_is_about_a_charge",
            ),
        ),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status__in", ("open", "accepted"))),
                fields=("attempt",),
                name="attempt_is_disputed_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("refund_nano__gt", 0),
                        ("refund_nano__isnull", False),
                        ("refund_nano__lte", models.F("charged_nano")),
                        ("status", "accepted"),
                    ),
                    models.Q(
                        models.Q(("status", "accepted"), _negated=True), ("refund_nano", None)
                    ),
                    _connector="OR",
                ),
                name="refund_is_at_most_the_charge",
            ),
        ),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("decided_at", None), ("decided_by", None), ("note", ""), ("status", "open")
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by__isnull", False),
                        ("status", "withdrawn"),
                        ("decided_by", models.F("asked_by")),
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("status__in", ("accepted", "declined")),
                        ("decided_by__isnull", False),
                        models.Q(("decided_by", models.F("asked_by")), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="dispute_is_decided_by_another_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="dispute",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status", "declined"), _negated=True),
                    models.Q(("note", ""), _negated=True),
                    _connector="OR",
                ),
                name="declined_dispute_has_a_note",
            ),
        ),
        migrations.AddIndex(
            model_name="adjustment",
            index=models.Index(
                condition=models.Q(("status", "pending")),
                fields=["expires_at"],
                name="adjustment_by_expiry",
            ),
        ),
        migrations.AddIndex(
            model_name="adjustment",
            index=models.Index(
                fields=["organization", "effective_at"], name="adjustment_by_moment"
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("amount_nano__gte", -1000000000000000000),
                    ("amount_nano__lte", 1000000000000000000),
                    models.Q(("amount_nano", 0), _negated=True),
                    models.Q(("reason", ""), _negated=True),
                ),
                name="adjustment_changes_something",
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("dispute", None), ("is_correction", False)),
                    models.Q(
                        ("amount_nano__lt", 0), ("dispute__isnull", False), ("status", "done")
                    ),
                    _connector="OR",
                ),
                name="only_refunds_are_corrections",
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("expires_at", None), ("status", "done")),
                    models.Q(
                        models.Q(("status", "done"), _negated=True),
                        ("expires_at__gt", models.F("asked_at")),
                        ("expires_at__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="adjustment_that_waits_expires",
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decided_at", None), ("decided_by", None), ("status", "pending")),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by", None),
                        ("status__in", ("done", "expired")),
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("status__in", ("approved", "rejected")),
                        ("decided_by__isnull", False),
                        models.Q(("decided_by", models.F("asked_by")), _negated=True),
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by__isnull", False),
                        ("status", "withdrawn"),
                        ("decided_by", models.F("asked_by")),
                    ),
                    _connector="OR",
                ),
                name="adjustment_has_a_second_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status", "rejected"), _negated=True),
                    models.Q(("note", ""), _negated=True),
                    _connector="OR",
                ),
                name="rejected_adjustment_has_a_note",
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
