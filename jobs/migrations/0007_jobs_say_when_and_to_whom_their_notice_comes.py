"""A job says how long before its time limit its notice comes, and whether only its shell gets it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0006_jobs_may_be_manifests")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="signal_ahead_s",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="signals_shell_only",
            field=models.BooleanField(default=False),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("signal_ahead_s", None),
                    models.Q(("signal_ahead_s__gte", 0), ("signal_ahead_s__lte", 86_400)),
                    _connector="OR",
                ),
                name="job_notice_is_at_most_a_day_ahead",
            ),
        ),
    ]
