"""A job has one attempt at most that holds GPUs.

A change of the foreign key once dropped this index: Django removes partial unique indexes together
with the index of their column.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_schema")]

    operations = [
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(
                condition=models.Q(("released_at", None)),
                fields=("job",),
                name="job_has_one_attempt_that_holds_gpus",
            ),
        ),
    ]
