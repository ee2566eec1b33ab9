"""Jobs of one name and user may run one after the other."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_jobs_name_their_folder_and_output_files")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="is_singleton",
            field=models.BooleanField(default=False),
        ),
    ]
