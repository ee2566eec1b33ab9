"""What is submitted held for the job of a claim while its victims have their grace."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0032_jobs_by_the_end_of_their_id")]

    operations = [
        migrations.CreateModel(
            name="HeldSubmission",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("number", models.IntegerField()),
                ("cluster_user", models.CharField(max_length=32, null=True)),
                ("native_id", models.CharField(max_length=200, null=True)),
                ("refusal", models.TextField(blank=True)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="held_submissions",
                        to="jobs.job",
                    ),
                ),
                (
                    "reclaim",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="held_submission",
                        to="jobs.reclaim",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job", "number"), name="held_submission_number_once_per_job"
                    )
                ],
            },
        ),
    ]
