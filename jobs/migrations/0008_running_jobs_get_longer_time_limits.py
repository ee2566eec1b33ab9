"""A running job may get a longer time limit, which its cluster confirms."""

import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0007_jobs_say_when_and_to_whom_their_notice_comes"),
    ]

    operations = [
        migrations.CreateModel(
            name="Extension",
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
                ("before_s", models.BigIntegerField()),
                ("limit_s", models.BigIntegerField()),
                ("asked_at", models.DateTimeField()),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("refusal", models.TextField(blank=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="extensions",
                        to="jobs.attempt",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("before_s__gte", 1), ("limit_s__gt", models.F("before_s"))
                        ),
                        name="extension_makes_a_limit_longer",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("confirmed_at", None), ("refusal", ""), _connector="OR"
                        ),
                        name="extension_is_taken_or_refused",
                    ),
                ],
            },
        ),
    ]
