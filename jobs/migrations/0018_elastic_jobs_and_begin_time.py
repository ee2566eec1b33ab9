"""Jobs are content with fewer nodes than they would like, and begin at a time."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0017_reasons_are_kept")]

    operations = [
        migrations.AddField(
            model_name="job", name="node_count_min", field=models.IntegerField(null=True)
        ),
        migrations.AddField(
            model_name="job", name="begin_at", field=models.DateTimeField(null=True)
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(node_count_min=None)
                | Q(node_count_min__gte=1, node_count_min__lt=F("node_count")),
                name="elastic_job_is_content_with_fewer_nodes",
            ),
        ),
    ]
