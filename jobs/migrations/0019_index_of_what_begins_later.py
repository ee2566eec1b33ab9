"""What begins later is found without reading all that is queued."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0018_elastic_jobs_and_begin_time")]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["begin_at"],
                name="job_begins_later",
                condition=Q(state="queued", begin_at__isnull=False),
            ),
        ),
    ]
