"""A start writes fewer indexes."""

from typing import Any

from django.db import migrations, models
from django.db.models import PROTECT, Q


def _reference(to: str, related_name: str, **options: Any) -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(
        on_delete=PROTECT, related_name=related_name, to=to, db_index=False, **options
    )


class Migration(migrations.Migration):
    dependencies = [("jobs", "0025_changes_of_nodes_are_noted")]

    operations = [
        migrations.AlterField(
            model_name="job", name="pool", field=_reference("clusters.pool", "jobs")
        ),
        migrations.AlterField(
            model_name="job",
            name="cluster",
            field=_reference("clusters.cluster", "pinned_jobs", null=True),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="reclaim",
            field=_reference("jobs.reclaim", "victims", null=True),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                fields=["reclaim"], name="attempt_taken_back", condition=Q(reclaim__isnull=False)
            ),
        ),
    ]
