"""Attempts say which type of job they belong to."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0007_ends_of_prices_stay"),
    ]

    operations = [
        migrations.AddField(
            model_name="meteredattempt",
            name="job_type",
            field=models.CharField(blank=True, db_default="", default="", max_length=12),
        ),
    ]
