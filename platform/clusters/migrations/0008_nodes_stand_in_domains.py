"""Nodes tell in which block, rack and NVLink domain they are."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0007_clusters_limit_time")]

    operations = [
        migrations.AddField(
            model_name="clusternode",
            name="domains",
            field=models.JSONField(default=dict),
        ),
    ]
