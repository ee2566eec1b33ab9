"""Jobs by a part of their name: an index of the names' trigrams, in capitals as Django compares.

`pg_trgm` comes with PostgreSQL and is trusted: whoever owns the database may create it.
"""

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.contrib.postgres.operations import TrigramExtension
from django.db import migrations
from django.db.models.functions import Upper


class Migration(migrations.Migration):
    dependencies = [("jobs", "0007_taken_back_unstarted")]

    operations = [
        TrigramExtension(),
        migrations.AddIndex(
            model_name="job",
            index=GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="job_by_part_of_name"),
        ),
    ]
