"""Jobs ask that their nodes are in one rack, block or NVLink domain."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q

TOPOLOGIES = ["node", "nvlink", "rack", "block"]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0014_cycles_are_kept")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="required_topology",
            field=models.CharField(max_length=6, null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="preferred_topology",
            field=models.CharField(max_length=6, null=True),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(required_topology=None)
                | Q(required_topology__in=TOPOLOGIES, preferred_topology=None),
                name="job_requires_a_known_topology_or_prefers_one",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(preferred_topology=None) | Q(preferred_topology__in=TOPOLOGIES),
                name="job_prefers_a_known_topology",
            ),
        ),
    ]
