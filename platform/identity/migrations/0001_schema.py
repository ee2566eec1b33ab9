"""Identity providers, their people, and groups that give roles."""

import django.contrib.postgres.fields
import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0003_roles_by_groups"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="IdentityProvider",
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
                ("name", models.CharField(max_length=60)),
                ("issuer", models.CharField(max_length=500)),
                ("client_id", models.CharField(max_length=255)),
                ("sealed_secret", models.BinaryField()),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=100), size=None
                    ),
                ),
                ("groups_claim", models.CharField(blank=True, max_length=100)),
                ("creates_people", models.BooleanField(default=False)),
                ("links_by_email", models.BooleanField(default=False)),
                ("is_enabled", models.BooleanField(default=True)),
                ("is_listed", models.BooleanField(default=False)),
                ("version", models.PositiveIntegerField(default=1)),
                ("changed_at", models.DateTimeField()),
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ExternalIdentity",
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
                ("issuer", models.CharField(max_length=500)),
                ("subject", models.CharField(max_length=255)),
                ("created_at", models.DateTimeField()),
                ("used_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="identities",
                        to="identity.identityprovider",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="GroupMapping",
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
                ("group", models.CharField(max_length=200)),
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
                ("created_at", models.DateTimeField()),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "group", "role", "node"),
                        name="identity_group_mapped_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("group", ""), _negated=True),
                        name="identity_group_has_a_name",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("role", "platform_admin"), _negated=True),
                        name="identity_group_gives_no_platform_role",
                    ),
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="identityprovider",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("issuer__startswith", "https://"),
                    ("issuer__startswith", "http://"),
                    _connector="OR",
                ),
                name="identity_issuer_is_a_web_address",
            ),
        ),
        migrations.AddConstraint(
            model_name="identityprovider",
            constraint=models.CheckConstraint(
                condition=models.Q(("scopes__contains", ["openid"])),
                name="identity_scopes_have_openid",
            ),
        ),
        migrations.AddConstraint(
            model_name="externalidentity",
            constraint=models.UniqueConstraint(
                fields=("provider", "issuer", "subject"), name="identity_subject_is_one_person"
            ),
        ),
        migrations.AddConstraint(
            model_name="externalidentity",
            constraint=models.UniqueConstraint(
                fields=("provider", "issuer", "user"), name="identity_person_has_one_subject"
            ),
        ),
    ]
