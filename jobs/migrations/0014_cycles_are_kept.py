"""Records of cycles that decided something."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import uuid_utils.compat
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0013_natives_that_wait"),
    ]

    operations = [
        migrations.CreateModel(
            name="Cycle",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("decided_at", models.DateTimeField()),
                ("epoch", models.BigIntegerField()),
                ("version", models.CharField(max_length=40)),
                (
                    "started",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                (
                    "claimed",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                (
                    "stopped",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                (
                    "dropped",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                ("size", models.IntegerField()),
                ("body", models.BinaryField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-decided_at", "-id"], name="cycle_by_time"),
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["started", "claimed", "stopped", "dropped"], name="cycle_by_job"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started__len__gte", 1),
                            ("claimed__len__gte", 1),
                            ("dropped__len__gte", 1),
                            _connector="OR",
                        ),
                        name="cycle_decided_something",
                    )
                ],
            },
        ),
        # It is packed already.
        migrations.RunSQL(
            sql="ALTER TABLE jobs_cycle ALTER COLUMN body SET STORAGE EXTERNAL",
            reverse_sql=migrations.RunSQL.noop,
        ),
    ]
