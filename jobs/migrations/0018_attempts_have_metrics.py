"""Attempts have metrics: their figures so far, and points over time."""

import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0017_lists_have_saved_views"),
    ]

    operations = [
        migrations.CreateModel(
            name="AttemptMetrics",
            fields=[
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="metrics",
                        serialize=False,
                        to="jobs.attempt",
                    ),
                ),
                ("interval_s", models.IntegerField()),
                ("point_count", models.IntegerField(default=0)),
                ("pointed_at", models.DateTimeField(null=True)),
                ("sampled_at", models.DateTimeField(null=True)),
                ("cpu_time_ms", models.BigIntegerField(null=True)),
                ("memory_bytes", models.BigIntegerField(null=True)),
                ("memory_peak_bytes", models.BigIntegerField(null=True)),
                ("processes", models.IntegerField(null=True)),
                ("cpu_milli", models.BigIntegerField(null=True)),
                ("memory_given_bytes", models.BigIntegerField(null=True)),
                ("gpu_known_s", models.BigIntegerField(default=0)),
                ("gpu_idle_s", models.BigIntegerField(default=0)),
                ("gpu_measured_s", models.BigIntegerField(default=0)),
                ("gpu_percent_s", models.BigIntegerField(default=0)),
                ("gpu_memory_peak_bytes", models.BigIntegerField(null=True)),
                ("gpus_idle_since", models.DateTimeField(null=True)),
                ("gpus_are_held", models.BooleanField(null=True)),
                ("final_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("final_at", None)),
                        fields=["attempt"],
                        name="metrics_not_final",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("interval_s__gte", 1), ("point_count__gte", 0)),
                        name="metrics_have_an_interval",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("cpu_time_ms", None), ("cpu_time_ms__gte", 0), _connector="OR"
                            ),
                            models.Q(
                                ("memory_bytes", None), ("memory_bytes__gte", 0), _connector="OR"
                            ),
                            models.Q(
                                ("memory_peak_bytes", None),
                                ("memory_peak_bytes__gte", 0),
                                _connector="OR",
                            ),
                            models.Q(("processes", None), ("processes__gte", 0), _connector="OR"),
                            models.Q(("cpu_milli", None), ("cpu_milli__gte", 0), _connector="OR"),
                            models.Q(
                                ("memory_given_bytes", None),
                                ("memory_given_bytes__gte", 0),
                                _connector="OR",
                            ),
                            models.Q(
                                ("gpu_memory_peak_bytes", None),
                                ("gpu_memory_peak_bytes__gte", 0),
                                _connector="OR",
                            ),
                        ),
                        name="metrics_are_not_negative",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("gpu_idle_s__gte", 0),
                            ("gpu_idle_s__lte", models.F("gpu_known_s")),
                            ("gpu_percent_s__gte", 0),
                            (
                                "gpu_percent_s__lte",
                                django.db.models.expressions.CombinedExpression(
                                    models.Value(100), "*", models.F("gpu_measured_s")
                                ),
                            ),
                        ),
                        name="metrics_idle_time_is_part_of_it",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="MetricPoint",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("cpu_time_ms", models.BigIntegerField(null=True)),
                ("memory_bytes", models.BigIntegerField(null=True)),
                ("processes", models.IntegerField(null=True)),
                ("gpus", models.JSONField(null=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="metric_points",
                        to="jobs.attempt",
                    ),
                ),
            ],
            options={
                "indexes": [
                    django.contrib.postgres.indexes.BrinIndex(
                        fields=["at"], name="metric_point_by_age"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("attempt", "at"), name="metric_point_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("cpu_time_ms", None), ("cpu_time_ms__gte", 0), _connector="OR"
                            ),
                            models.Q(
                                ("memory_bytes", None), ("memory_bytes__gte", 0), _connector="OR"
                            ),
                            models.Q(("processes", None), ("processes__gte", 0), _connector="OR"),
                        ),
                        name="metric_point_is_not_negative",
                    ),
                ],
            },
        ),
    ]
