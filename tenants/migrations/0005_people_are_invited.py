"""Invitations."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0004_roles_may_expire"),
    ]

    operations = [
        migrations.CreateModel(
            name="Invitation",
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
                ("email", models.EmailField(max_length=254)),
                ("username", models.CharField(max_length=63)),
                ("name", models.CharField(max_length=200)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("platform_admin", "platform_admin"),
                            ("organization_admin", "organization_admin"),
                            ("department_admin", "department_admin"),
                            ("team_lead", "team_lead"),
                            ("researcher", "researcher"),
                            ("finance", "finance"),
                            ("auditor", "auditor"),
                            ("service_account", "service_account"),
                        ],
                        max_length=24,
                    ),
                ),
                ("role_expires_at", models.DateTimeField(null=True)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("withdrawn_at", models.DateTimeField(null=True)),
                ("accepted_at", models.DateTimeField(null=True)),
                (
                    "invited_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))),
                        name="invitation_expires_after_creation",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("accepted_at", None), ("user", None)),
                            models.Q(
                                ("accepted_at__isnull", False),
                                ("user__isnull", False),
                                ("withdrawn_at", None),
                            ),
                            _connector="OR",
                        ),
                        name="invitation_accepted_has_a_user",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("accepted_at__isnull", True), ("withdrawn_at__isnull", True)
                        ),
                        fields=("node", "email"),
                        name="invitation_open_once_per_node",
                    ),
                ],
            },
        ),
    ]
