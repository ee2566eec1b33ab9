"""Mails and webhooks with their deliveries, and the choices of people."""

import django.contrib.postgres.fields
import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notices", "0002_comments_and_expiries_of_requests"),
        ("tenants", "0003_roles_by_groups"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ChannelChoice",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("event", models.CharField(max_length=20)),
                (
                    "channel",
                    models.CharField(
                        choices=[("portal", "Portal"), ("mail", "Mail")], max_length=6
                    ),
                ),
                ("is_on", models.BooleanField()),
            ],
        ),
        migrations.CreateModel(
            name="Mail",
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
                ("subject", models.CharField(max_length=200)),
                ("notice_count", models.PositiveIntegerField()),
                ("address", models.EmailField(blank=True, default="", max_length=254)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("sending", "Sending"),
                            ("sent", "Sent"),
                            ("failed", "Failed"),
                        ],
                        default="pending",
                        max_length=7,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("next_at", models.DateTimeField()),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("ended_at", models.DateTimeField(null=True)),
                ("error", models.CharField(blank=True, default="", max_length=500)),
            ],
        ),
        migrations.CreateModel(
            name="MailItem",
            fields=[
                (
                    "notice",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="notices.notice",
                    ),
                ),
                ("due_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="MailSettings",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                (
                    "digest",
                    models.CharField(
                        choices=[("none", "None"), ("hourly", "Hourly"), ("daily", "Daily")],
                        default="none",
                        max_length=6,
                    ),
                ),
                ("quiet_from", models.PositiveIntegerField(null=True)),
                ("quiet_until", models.PositiveIntegerField(null=True)),
                ("version", models.PositiveIntegerField(default=1)),
            ],
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
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
                ("event", models.CharField(max_length=20)),
                ("key", models.CharField(max_length=200)),
                ("data", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("sending", "Sending"),
                            ("sent", "Sent"),
                            ("failed", "Failed"),
                        ],
                        default="pending",
                        max_length=7,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("next_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("ended_at", models.DateTimeField(null=True)),
                ("status_code", models.PositiveIntegerField(null=True)),
                ("response_excerpt", models.CharField(blank=True, default="", max_length=500)),
                ("duration_ms", models.PositiveIntegerField(null=True)),
                ("error", models.CharField(blank=True, default="", max_length=500)),
            ],
        ),
        migrations.CreateModel(
            name="WebhookTarget",
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
                ("name", models.CharField(max_length=100)),
                (
                    "kind",
                    models.CharField(
                        choices=[("slack", "Slack"), ("teams", "Teams"), ("signed", "Signed")],
                        max_length=6,
                    ),
                ),
                ("url", models.CharField(max_length=500)),
                (
                    "events",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=20), size=None
                    ),
                ),
                ("secret", models.BinaryField(max_length=32)),
                ("old_secret", models.BinaryField(max_length=32, null=True)),
                ("old_secret_until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("failing_since", models.DateTimeField(null=True)),
                ("disabled_at", models.DateTimeField(null=True)),
                ("disabled_reason", models.CharField(blank=True, default="", max_length=200)),
                ("version", models.PositiveIntegerField(default=1)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="notice",
            name="notice_event_is_known",
        ),
        migrations.RemoveIndex(
            model_name="notice",
            name="notice_unread",
        ),
        migrations.AddField(
            model_name="notice",
            name="is_shown",
            field=models.BooleanField(default=True),
        ),
        migrations.AlterField(
            model_name="notice",
            name="event",
            field=models.CharField(
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
                    ("request_commented", "Request Commented"),
                    ("request_expiring", "Request Expiring"),
                    ("quota_changed", "Quota Changed"),
                    ("token_expiring", "Token Expiring"),
                    ("cluster_stale", "Cluster Stale"),
                    ("webhook_disabled", "Webhook Disabled"),
                ],
                max_length=20,
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("is_shown", True), ("read_at__isnull", True)),
                fields=["user"],
                name="notice_unread",
            ),
        ),
        migrations.AddConstraint(
            model_name="notice",
            constraint=models.CheckConstraint(
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
                            "request_commented",
                            "request_expiring",
                            "quota_changed",
                            "token_expiring",
                            "cluster_stale",
                            "webhook_disabled",
                        ],
                    )
                ),
                name="notice_event_is_known",
            ),
        ),
        migrations.AddField(
            model_name="channelchoice",
            name="user",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="mail",
            name="user",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="mailitem",
            name="mail",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="items",
                to="notices.mail",
            ),
        ),
        migrations.AddField(
            model_name="mailitem",
            name="user",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="mailsettings",
            constraint=models.CheckConstraint(
                condition=models.Q(("digest__in", ["none", "hourly", "daily"])),
                name="mail_digest_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="mailsettings",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("quiet_from", None), ("quiet_until", None)),
                    models.Q(
                        ("quiet_from__isnull", False),
                        ("quiet_until__isnull", False),
                        ("quiet_from__lt", 1440),
                        ("quiet_until__lt", 1440),
                        models.Q(("quiet_from", models.F("quiet_until")), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="quiet_hours_are_part_of_a_day",
            ),
        ),
        migrations.AddField(
            model_name="webhooktarget",
            name="node",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="tenants.node",
            ),
        ),
        migrations.AddField(
            model_name="webhooktarget",
            name="user",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="webhookdelivery",
            name="target",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="deliveries",
                to="notices.webhooktarget",
            ),
        ),
        migrations.AddConstraint(
            model_name="channelchoice",
            constraint=models.UniqueConstraint(
                fields=("user", "event", "channel"), name="channel_is_chosen_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="channelchoice",
            constraint=models.CheckConstraint(
                condition=models.Q(("channel__in", ["portal", "mail"])),
                name="notice_channel_is_known",
            ),
        ),
        migrations.AddIndex(
            model_name="mail",
            index=models.Index(fields=["user", "-id"], name="mail_by_user"),
        ),
        migrations.AddIndex(
            model_name="mail",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "sending"])),
                fields=["next_at"],
                name="mail_to_send",
            ),
        ),
        migrations.AddIndex(
            model_name="mail",
            index=models.Index(fields=["created_at"], name="mail_by_age"),
        ),
        migrations.AddConstraint(
            model_name="mail",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at", None), ("state__in", ["pending", "sending"])),
                    models.Q(
                        ("attempts__gte", 1),
                        ("ended_at__isnull", False),
                        ("error", ""),
                        ("state", "sent"),
                    ),
                    models.Q(
                        ("ended_at__isnull", False),
                        ("state", "failed"),
                        models.Q(("error", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="mail_says_how_it_ended",
            ),
        ),
        migrations.AddConstraint(
            model_name="mail",
            constraint=models.CheckConstraint(
                condition=models.Q(("subject", ""), _negated=True), name="mail_has_a_subject"
            ),
        ),
        migrations.AddIndex(
            model_name="mailitem",
            index=models.Index(
                condition=models.Q(("mail__isnull", True)),
                fields=["due_at"],
                name="mail_item_to_compose",
            ),
        ),
        migrations.AddIndex(
            model_name="mailitem",
            index=models.Index(
                condition=models.Q(("mail__isnull", True)),
                fields=["user"],
                name="mail_item_by_user",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhooktarget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("node__isnull", False), ("user", None)),
                    models.Q(("node", None), ("user__isnull", False)),
                    _connector="OR",
                ),
                name="webhook_has_one_owner",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhooktarget",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["slack", "teams", "signed"])),
                name="webhook_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhooktarget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("old_secret", None), ("old_secret_until", None)),
                    models.Q(("old_secret__isnull", False), ("old_secret_until__isnull", False)),
                    _connector="OR",
                ),
                name="webhook_old_secret_has_an_end",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhooktarget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("disabled_at", None), ("disabled_reason", "")),
                    models.Q(
                        ("disabled_at__isnull", False),
                        models.Q(("disabled_reason", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="webhook_says_why_it_is_disabled",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhooktarget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("name", ""), _negated=True), models.Q(("events", []), _negated=True)
                ),
                name="webhook_has_a_name_and_events",
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["target", "-id"], name="webhook_delivery_by_target"),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "sending"])),
                fields=["next_at"],
                name="webhook_delivery_to_make",
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["created_at"], name="webhook_delivery_by_age"),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.UniqueConstraint(
                fields=("target", "key"), name="webhook_event_is_sent_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at", None), ("state__in", ["pending", "sending"])),
                    models.Q(("ended_at__isnull", False), ("error", ""), ("state", "sent")),
                    models.Q(
                        ("ended_at__isnull", False),
                        ("state", "failed"),
                        models.Q(("error", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="webhook_delivery_says_how_it_ended",
            ),
        ),
    ]
