"""Weekly figures of leads."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notices", "0004_roles_give_notices"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="notice",
            name="notice_event_is_known",
        ),
        migrations.AddField(
            model_name="notice",
            name="figures",
            field=models.JSONField(db_default=[], default=list),
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
                    ("role_expiring", "Role Expiring"),
                    ("cluster_stale", "Cluster Stale"),
                    ("week_summary", "Week Summary"),
                    ("webhook_disabled", "Webhook Disabled"),
                ],
                max_length=20,
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
                            "role_expiring",
                            "cluster_stale",
                            "week_summary",
                            "webhook_disabled",
                        ],
                    )
                ),
                name="notice_event_is_known",
            ),
        ),
    ]
