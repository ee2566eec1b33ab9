"""Teams have templates, whose locked members are members of their requests."""

import django.contrib.postgres.fields
import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0015_jobs_have_expected_starts"),
        ("tenants", "0005_people_are_invited"),
    ]

    operations = [
        migrations.CreateModel(
            name="JobTemplate",
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
                ("name", models.CharField(max_length=100)),
                ("description", models.CharField(default="", max_length=500)),
                ("request", models.JSONField()),
                (
                    "locked",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64), default=list, size=None
                    ),
                ),
                ("version", models.IntegerField(default=1)),
                ("changed_at", models.DateTimeField()),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("team", "name"), name="template_name_is_unique"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("name", ""), _negated=True), name="template_has_a_name"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("version__gte", 1)), name="template_version_counts"
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            """
            ALTER TABLE jobs_jobtemplate ADD CONSTRAINT template_locks_its_own_members
                CHECK (request ?& locked::text[])
            """,
            "ALTER TABLE jobs_jobtemplate DROP CONSTRAINT template_locks_its_own_members",
        ),
    ]
