"""A job may be a Kubernetes manifest, which its script then is."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0005_jobs_are_requeued_as_they_ask")]

    operations = [
        migrations.RemoveConstraint(model_name="job", name="job_launch_is_known"),
        migrations.AlterField(
            model_name="job",
            name="launch",
            field=models.CharField(
                choices=[
                    ("batch", "Batch"),
                    ("per_node", "Per Node"),
                    ("manifest", "Manifest"),
                ],
                default="per_node",
                max_length=8,
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("launch__in", ["batch", "per_node", "manifest"])),
                name="job_launch_is_known",
            ),
        ),
    ]
