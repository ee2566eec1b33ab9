"""Singletons that wait have an index, which is built while jobs are submitted and run.

It is a migration of its own, so that a build that failed can be repeated: drop the invalid index
`job_singleton_waiting`, and migrate again.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0010_jobs_may_wait_for_others_of_their_name")]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                condition=models.Q(("is_singleton", True), ("state", "queued")),
                fields=["user"],
                name="job_singleton_waiting",
            ),
        ),
    ]
