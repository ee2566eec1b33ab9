"""What begins later is found by its time alone, whatever statistics say of how many are queued."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0029_no_index_of_clusters_attempts")]

    operations = [
        migrations.RemoveIndex(model_name="job", name="job_begins_later"),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["begin_at"], name="job_begins_at", condition=Q(begin_at__isnull=False)
            ),
        ),
    ]
