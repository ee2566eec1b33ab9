"""Attempts have CPU rates, on clusters that report no CPU time."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0019_attempts_keep_off_closed_nodes"),
    ]

    operations = [
        migrations.AddField(
            model_name="attemptmetrics",
            name="cpu_measured_s",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="attemptmetrics",
            name="cpu_rate_milli_s",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="metricpoint",
            name="cpu_rate_milli",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddConstraint(
            model_name="attemptmetrics",
            constraint=models.CheckConstraint(
                condition=models.Q(("cpu_measured_s__gte", 0), ("cpu_rate_milli_s__gte", 0)),
                name="metrics_cpu_rate_is_not_negative",
            ),
        ),
        # The column is new, so no row can break it. A scan of all points would lock them.
        AddConstraintNotValid(
            model_name="metricpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("cpu_rate_milli", None), ("cpu_rate_milli__gte", 0), _connector="OR"
                ),
                name="metric_point_rate_is_not_negative",
            ),
        ),
    ]
