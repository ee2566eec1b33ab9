"""The list of jobs has views that people save under a name."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0016_teams_have_templates"),
        ("tenants", "0007_imported_invitations_are_mailed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedView",
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
                ("parameters", models.JSONField()),
                ("created_at", models.DateTimeField()),
                (
                    "node",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("node", None)),
                        fields=("user", "name"),
                        name="personal_view_is_unique",
                    ),
                    models.UniqueConstraint(fields=("node", "name"), name="shared_view_is_unique"),
                    models.CheckConstraint(
                        condition=models.Q(("name", ""), _negated=True), name="view_has_a_name"
                    ),
                ],
            },
        ),
    ]
