"""Attempts have CPU rates, on clusters that report no CPU time."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0019_attempts_keep_off_closed_nodes"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="metricpoint",
            name="metric_point_is_not_negative",
        ),
        migrations.AddField(
            model_name="attemptmetrics",
            name="cpu_measured_s",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="attemptmetrics",
            name="cpu_rate_milli_s",
            field=models.BigIntegerField(default=0),
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
        migrations.AddConstraint(
            model_name="metricpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cpu_time_ms", None), ("cpu_time_ms__gte", 0), _connector="OR"),
                    models.Q(("cpu_rate_milli", None), ("cpu_rate_milli__gte", 0), _connector="OR"),
                    models.Q(("memory_bytes", None), ("memory_bytes__gte", 0), _connector="OR"),
                    models.Q(("processes", None), ("processes__gte", 0), _connector="OR"),
                ),
                name="metric_point_is_not_negative",
            ),
        ),
    ]
