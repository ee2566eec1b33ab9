"""The time zone of the days in the name of a file."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("exports", "0008_commitments_have_files"),
    ]

    operations = [
        migrations.AddField(
            model_name="export",
            name="time_zone",
            field=models.CharField(default="UTC", max_length=64),
        ),
    ]
