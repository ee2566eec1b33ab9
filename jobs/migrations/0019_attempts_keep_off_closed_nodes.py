"""Attempts and claims name the nodes where they would run into maintenance."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0018_attempts_have_metrics")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="closed_nodes",
            field=models.JSONField(db_default=[], default=list),
        ),
        migrations.AddField(
            model_name="reclaim",
            name="closed_nodes",
            field=models.JSONField(db_default=[], default=list),
        ),
    ]
