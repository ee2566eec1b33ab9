"""Metrics of attempts: their figures so far, and a bounded number of points over time."""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q


class AttemptMetrics(models.Model):
    """The figures of an attempt from its start to its latest sample. It stays as long as the job.

    Null means that the cluster does not report a figure. Points are `interval_s` apart; the
    interval doubles whenever the attempt has the most points (`jobs.execution.sampling`).
    `cpu_milli` and `memory_given_bytes` are what the cluster gave to the attempt, if it says so.

    `cpu_rate_milli_s` is the sum of the CPU rate, in milli-cores, over `cpu_measured_s` seconds, on
    clusters that report a rate and no CPU time.

    Of `gpu_known_s` GPU-seconds the cluster reported whether the GPU was idle, and `gpu_idle_s` of
    them were. `gpu_percent_s` is the sum of utilisation over `gpu_measured_s` GPU-seconds.
    `gpus_idle_since` is the time since when all GPUs of the attempt have been idle, and
    `gpus_are_held` says whether a process held any of them at the latest sample.

    `final_at` is the time when the figures of the ended attempt were complete.
    """

    attempt = models.OneToOneField(
        "jobs.Attempt", models.CASCADE, primary_key=True, related_name="metrics"
    )
    interval_s = models.IntegerField()
    point_count = models.IntegerField(default=0)
    pointed_at = models.DateTimeField(null=True)
    sampled_at = models.DateTimeField(null=True)
    cpu_time_ms = models.BigIntegerField(null=True)
    memory_bytes = models.BigIntegerField(null=True)
    memory_peak_bytes = models.BigIntegerField(null=True)
    processes = models.IntegerField(null=True)
    cpu_milli = models.BigIntegerField(null=True)
    memory_given_bytes = models.BigIntegerField(null=True)
    cpu_measured_s = models.BigIntegerField(default=0, db_default=0)
    cpu_rate_milli_s = models.BigIntegerField(default=0, db_default=0)
    gpu_known_s = models.BigIntegerField(default=0)
    gpu_idle_s = models.BigIntegerField(default=0)
    gpu_measured_s = models.BigIntegerField(default=0)
    gpu_percent_s = models.BigIntegerField(default=0)
    gpu_memory_peak_bytes = models.BigIntegerField(null=True)
    gpus_idle_since = models.DateTimeField(null=True)
    gpus_are_held = models.BooleanField(null=True)
    final_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(interval_s__gte=1, point_count__gte=0),
                name="metrics_have_an_interval",
            ),
            models.CheckConstraint(
                condition=(Q(cpu_time_ms=None) | Q(cpu_time_ms__gte=0))
                & (Q(memory_bytes=None) | Q(memory_bytes__gte=0))
                & (Q(memory_peak_bytes=None) | Q(memory_peak_bytes__gte=0))
                & (Q(processes=None) | Q(processes__gte=0))
                & (Q(cpu_milli=None) | Q(cpu_milli__gte=0))
                & (Q(memory_given_bytes=None) | Q(memory_given_bytes__gte=0))
                & (Q(gpu_memory_peak_bytes=None) | Q(gpu_memory_peak_bytes__gte=0)),
                name="metrics_are_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(
                    gpu_idle_s__gte=0,
                    gpu_idle_s__lte=F("gpu_known_s"),
                    gpu_percent_s__gte=0,
                    gpu_percent_s__lte=100 * F("gpu_measured_s"),
                ),
                name="metrics_idle_time_is_part_of_it",
            ),
            models.CheckConstraint(
                condition=Q(cpu_measured_s__gte=0, cpu_rate_milli_s__gte=0),
                name="metrics_cpu_rate_is_not_negative",
            ),
        ]
        indexes = [
            models.Index(fields=["attempt"], name="metrics_not_final", condition=Q(final_at=None)),
        ]

    def __str__(self) -> str:
        return f"metrics of {self.attempt_id}"


class MetricPoint(models.Model):
    """The figures of an attempt at one moment. `cpu_time_ms` counts from its start.

    `cpu_rate_milli` is the CPU rate in milli-cores, on clusters that report no CPU time.
    `gpus` is a list with the members of `connectors.metrics.GpuSample`, or null where the cluster
    reports nothing about GPUs.
    """

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(
        "jobs.Attempt", models.CASCADE, related_name="metric_points", db_index=False
    )
    at = models.DateTimeField()
    cpu_time_ms = models.BigIntegerField(null=True)
    cpu_rate_milli = models.BigIntegerField(null=True)
    memory_bytes = models.BigIntegerField(null=True)
    processes = models.IntegerField(null=True)
    gpus = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "at"], name="metric_point_once"),
            models.CheckConstraint(
                condition=(Q(cpu_time_ms=None) | Q(cpu_time_ms__gte=0))
                & (Q(memory_bytes=None) | Q(memory_bytes__gte=0))
                & (Q(processes=None) | Q(processes__gte=0)),
                name="metric_point_is_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(cpu_rate_milli=None) | Q(cpu_rate_milli__gte=0),
                name="metric_point_rate_is_not_negative",
            ),
        ]
        indexes = [BrinIndex(fields=["at"], name="metric_point_by_age")]

    def __str__(self) -> str:
        return f"metrics of {self.attempt_id} at {self.at:%Y-%m-%dT%H:%M:%SZ}"
