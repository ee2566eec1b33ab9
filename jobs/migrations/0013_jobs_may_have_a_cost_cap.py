"""Jobs may have a cost cap, at which they are stopped."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0003_jobs_may_reach_the_portal"),
        ("jobs", "0012_schedules_submit_jobs"),
        ("quotas", "0004_users_of_teams_have_caps"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="cost_cap_nano",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="stop_reason",
            field=models.CharField(
                choices=[
                    ("cancelled", "Cancelled"),
                    ("preempted", "Preempted"),
                    ("withdrawn", "Withdrawn"),
                    ("requeued", "Requeued"),
                    ("cost_cap", "Cost Cap"),
                ],
                max_length=9,
                null=True,
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("cost_cap_nano", None),
                    models.Q(
                        ("cost_cap_nano__gte", 1), ("cost_cap_nano__lte", 1000000000000000000)
                    ),
                    _connector="OR",
                ),
                name="job_cost_cap_is_in_range",
            ),
        ),
    ]
