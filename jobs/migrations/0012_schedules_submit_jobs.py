"""Schedules submit jobs, and have a row for each of their runs."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0011_singletons_that_wait_have_an_index"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Schedule",
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
                ("name", models.CharField(max_length=200)),
                ("cron", models.CharField(max_length=100)),
                ("time_zone", models.CharField(max_length=64)),
                ("request", models.JSONField()),
                (
                    "concurrency_policy",
                    models.CharField(
                        choices=[("allow", "Allow"), ("forbid", "Forbid"), ("replace", "Replace")],
                        default="allow",
                        max_length=7,
                    ),
                ),
                ("starting_deadline_s", models.IntegerField(null=True)),
                ("is_suspended", models.BooleanField(default=False)),
                ("suspended_because", models.TextField(default="")),
                ("next_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ScheduleRun",
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
                ("scheduled_at", models.DateTimeField()),
                ("at", models.DateTimeField()),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("submitted", "Submitted"),
                            ("refused", "Refused"),
                            ("skipped", "Skipped"),
                            ("missed", "Missed"),
                        ],
                        max_length=9,
                    ),
                ),
                ("reason", models.TextField(default="")),
                (
                    "job",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="schedule_run",
                        to="jobs.job",
                    ),
                ),
                (
                    "schedule",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="jobs.schedule",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="schedule",
            index=models.Index(
                condition=models.Q(("next_at__isnull", False)),
                fields=["next_at"],
                name="schedule_due",
            ),
        ),
        migrations.AddIndex(
            model_name="schedule",
            index=models.Index(fields=["user", "-id"], name="schedule_by_user"),
        ),
        migrations.AddIndex(
            model_name="schedule",
            index=models.Index(fields=["team", "-id"], name="schedule_by_team"),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(("concurrency_policy__in", ["allow", "forbid", "replace"])),
                name="schedule_concurrency_policy_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("starting_deadline_s", None),
                    models.Q(
                        ("starting_deadline_s__gte", 60), ("starting_deadline_s__lte", 31536000)
                    ),
                    _connector="OR",
                ),
                name="schedule_starting_deadline_is_in_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("ended_at", None), ("is_suspended", False), ("next_at__isnull", False)
                    ),
                    models.Q(
                        models.Q(
                            ("is_suspended", True), ("ended_at__isnull", False), _connector="OR"
                        ),
                        ("next_at", None),
                    ),
                    _connector="OR",
                ),
                name="schedule_has_a_next_run_while_it_is_active",
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("suspended_because", ""), ("is_suspended", True), _connector="OR"
                ),
                name="schedule_says_why_only_while_suspended",
            ),
        ),
        migrations.AddIndex(
            model_name="schedulerun",
            index=models.Index(
                condition=models.Q(("job", None)), fields=["at"], name="schedule_run_no_job"
            ),
        ),
        migrations.AddConstraint(
            model_name="schedulerun",
            constraint=models.UniqueConstraint(
                fields=("schedule", "scheduled_at"), name="schedule_runs_once_at_each_moment"
            ),
        ),
        migrations.AddConstraint(
            model_name="schedulerun",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("job__isnull", False), ("outcome", "submitted"), ("reason", "")),
                    models.Q(
                        ("job", None),
                        ("outcome__in", ["refused", "skipped", "missed"]),
                        models.Q(("reason", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="schedule_run_has_a_job_or_a_reason",
            ),
        ),
    ]
