"""Nodes tell how much CPU and memory they have, and what jobs get of it with each GPU."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0008_nodes_stand_in_domains")]

    operations = [
        migrations.AddField(
            model_name="clusternode",
            name="cpu_milli",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="clusternode",
            name="memory_mib",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="clusternode",
            name="cpu_milli_per_gpu",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="clusternode",
            name="memory_mib_per_gpu",
            field=models.PositiveBigIntegerField(default=0),
        ),
    ]
