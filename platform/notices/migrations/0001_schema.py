"""Notices to people."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Notice",
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
                    "event",
                    models.CharField(
                        choices=[
                            ("job_started", "Job Started"),
                            ("job_ended", "Job Ended"),
                            ("job_failed", "Job Failed"),
                            ("job_preempting", "Job Preempting"),
                            ("job_requeued", "Job Requeued"),
                            ("job_held", "Job Held"),
                            ("time_limit_near", "Time Limit Near"),
                            ("team_preempted", "Team Preempted"),
                            ("budget_alert", "Budget Alert"),
                            ("credits_expiring", "Credits Expiring"),
                            ("statement_ready", "Statement Ready"),
                            ("decision_waiting", "Decision Waiting"),
                            ("request_decided", "Request Decided"),
                            ("quota_changed", "Quota Changed"),
                            ("token_expiring", "Token Expiring"),
                            ("cluster_stale", "Cluster Stale"),
                        ],
                        max_length=20,
                    ),
                ),
                ("key", models.CharField(max_length=200)),
                ("subject_kind", models.CharField(max_length=32)),
                ("subject_id", models.CharField(max_length=64)),
                ("sentence", models.CharField(max_length=500)),
                ("link", models.CharField(max_length=1200)),
                ("at", models.DateTimeField()),
                ("deadline", models.DateTimeField(null=True)),
                ("read_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["user", "-id"], name="notice_by_user"),
                    models.Index(
                        condition=models.Q(("read_at__isnull", True)),
                        fields=["user"],
                        name="notice_unread",
                    ),
                    models.Index(fields=["subject_kind", "subject_id"], name="notice_by_subject"),
                    models.Index(fields=["at"], name="notice_by_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("user", "key"), name="notice_is_given_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "event__in",
                                [
                                    "job_started",
                                    "job_ended",
                                    "job_failed",
                                    "job_preempting",
                                    "job_requeued",
                                    "job_held",
                                    "time_limit_near",
                                    "team_preempted",
                                    "budget_alert",
                                    "credits_expiring",
                                    "statement_ready",
                                    "decision_waiting",
                                    "request_decided",
                                    "quota_changed",
                                    "token_expiring",
                                    "cluster_stale",
                                ],
                            )
                        ),
                        name="notice_event_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("link__regex", "\\A/([^/\\\\].*)?\\Z")),
                        name="notice_link_is_local",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("sentence", ""), _negated=True),
                        name="notice_has_a_sentence",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("deadline", None), ("deadline__gte", models.F("at")), _connector="OR"
                        ),
                        name="notice_deadline_is_later",
                    ),
                ],
            },
        ),
    ]
