"""Schedules of deliveries, and what was delivered."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("exports", "0003_audits_are_stored"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="DeliverySchedule",
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
                (
                    "dataset",
                    models.CharField(
                        choices=[
                            ("charges", "Charges"),
                            ("focus_cost_and_usage", "Focus Cost And Usage"),
                            ("focus_billing_period", "Focus Billing Period"),
                        ],
                        max_length=32,
                    ),
                ),
                (
                    "format",
                    models.CharField(
                        choices=[("csv", "Csv"), ("xlsx", "Xlsx"), ("parquet", "Parquet")],
                        max_length=8,
                    ),
                ),
                (
                    "frequency",
                    models.CharField(
                        choices=[("monthly", "Monthly"), ("daily", "Daily")], max_length=7
                    ),
                ),
                ("target", models.CharField(max_length=32)),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
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
                ("due_on", models.DateField()),
                (
                    "state",
                    models.CharField(
                        choices=[("waiting", "Waiting"), ("done", "Done"), ("failed", "Failed")],
                        default="waiting",
                        max_length=7,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("next_at", models.DateTimeField()),
                ("tries", models.PositiveIntegerField(default=0)),
                ("message", models.CharField(blank=True, max_length=500)),
                ("delivered_at", models.DateTimeField(null=True)),
                ("sha256", models.CharField(blank=True, max_length=64)),
                (
                    "export",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="exports.export",
                    ),
                ),
                (
                    "schedule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="exports.deliveryschedule",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="deliveryschedule",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at", None)),
                fields=("organization", "dataset", "format", "frequency", "target"),
                name="file_is_delivered_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="deliveryschedule",
            constraint=models.CheckConstraint(
                condition=models.Q(("frequency__in", ["monthly", "daily"])),
                name="frequency_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="deliveryschedule",
            constraint=models.CheckConstraint(
                condition=models.Q(("target", ""), _negated=True), name="delivery_has_a_target"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "waiting")),
                fields=["next_at"],
                name="delivery_to_make",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                fields=("schedule", "due_on"), name="day_is_delivered_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state", "waiting"),
                    models.Q(
                        ("delivered_at__isnull", False),
                        ("message", ""),
                        ("state", "done"),
                        ("sha256__regex", "\\A[0-9a-f]{64}\\Z"),
                    ),
                    models.Q(("state", "failed"), models.Q(("message", ""), _negated=True)),
                    _connector="OR",
                ),
                name="delivery_says_how_it_ended",
            ),
        ),
    ]
