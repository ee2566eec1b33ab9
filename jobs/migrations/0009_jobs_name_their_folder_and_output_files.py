"""A job may name the folder in which its script starts, and the files of its output."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0008_running_jobs_get_longer_time_limits")]

    operations = [
        *(
            migrations.AddField(
                model_name="job",
                name=name,
                field=models.CharField(max_length=1024, null=True),
            )
            for name in ("folder", "output_file", "error_file")
        ),
        migrations.AddField(
            model_name="job",
            name="appends_output",
            field=models.BooleanField(default=False),
        ),
    ]
