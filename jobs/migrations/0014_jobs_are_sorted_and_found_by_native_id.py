"""Indexes for the orders of the list of jobs, and for the ids that clusters gave.

They are built while jobs are submitted and run. A build that failed can be repeated: drop the
indexes that are there already, valid or not, and migrate again.
"""

from datetime import UTC, datetime

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q, Value, functions


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0013_jobs_may_have_a_cost_cap")]

    operations = [
        AddIndexConcurrently(
            model_name="attempt",
            index=models.Index(
                condition=Q(("native_id__isnull", False)),
                fields=["native_id"],
                name="attempt_by_native_id",
            ),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(functions.Upper("name"), F("id").desc(), name="job_by_name"),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                functions.Coalesce("started_at", Value(datetime(1970, 1, 1, tzinfo=UTC))),
                F("id"),
                name="job_by_start",
            ),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                functions.Coalesce("ended_at", Value(datetime(1970, 1, 1, tzinfo=UTC))),
                F("id"),
                name="job_by_end",
            ),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(F("mgpu_per_node") * F("node_count"), F("id"), name="job_by_gpus"),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                condition=Q(("native_id__isnull", False)),
                fields=["native_id"],
                name="job_by_native_id",
            ),
        ),
    ]
