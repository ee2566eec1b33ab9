"""Requested files with charges."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Export",
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
                ("node_path", models.CharField(max_length=1024)),
                ("dataset", models.CharField(choices=[("charges", "Charges")], max_length=32)),
                (
                    "format",
                    models.CharField(
                        choices=[("csv", "Csv"), ("xlsx", "Xlsx"), ("parquet", "Parquet")],
                        max_length=8,
                    ),
                ),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField()),
                ("as_of", models.DateTimeField()),
                ("pool", models.CharField(blank=True, max_length=63)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                        ],
                        default="queued",
                        max_length=8,
                    ),
                ),
                ("progress_permille", models.PositiveIntegerField(default=0)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("message", models.CharField(blank=True, max_length=500)),
                ("size_bytes", models.BigIntegerField(null=True)),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("manifest", models.JSONField(null=True)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["queued", "running"])),
                        fields=["id"],
                        name="export_to_write",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["queued", "running", "done", "failed"])),
                        name="export_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("format__in", ["csv", "xlsx", "parquet"])),
                        name="export_format_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("end__gt", models.F("start"))),
                        name="export_period_has_a_length",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("progress_permille__lte", 1000)),
                        name="export_progress_is_a_share",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("ended_at__isnull", False),
                                ("size_bytes__gte", 0),
                                ("state", "done"),
                                ("manifest__isnull", False),
                                ("sha256__regex", "\\A[0-9a-f]{64}\\Z"),
                            ),
                            models.Q(
                                models.Q(("state", "done"), _negated=True),
                                ("manifest__isnull", True),
                                ("sha256", ""),
                                ("size_bytes", None),
                            ),
                            _connector="OR",
                        ),
                        name="export_has_a_file_when_done",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "failed"), models.Q(("message", ""), _negated=True)),
                            models.Q(models.Q(("state", "failed"), _negated=True), ("message", "")),
                            _connector="OR",
                        ),
                        name="export_says_why_it_failed",
                    ),
                ],
            },
        ),
    ]
