"""Expected starts of queued jobs."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0014_jobs_are_sorted_and_found_by_native_id"),
    ]

    operations = [
        migrations.CreateModel(
            name="StartExpectation",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="start_expectation",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("expected_by", models.DateTimeField()),
            ],
        ),
    ]
