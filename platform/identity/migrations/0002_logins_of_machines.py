"""Logins of machines without a browser."""

import datetime

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("identity", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="DeviceLogin",
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
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("user_code", models.CharField(max_length=8, unique=True)),
                ("host", models.CharField(max_length=80)),
                ("address", models.CharField(max_length=64)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=16), size=None
                    ),
                ),
                ("token_days", models.PositiveIntegerField()),
                ("interval_s", models.PositiveIntegerField()),
                ("polled_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("is_approved", models.BooleanField(default=False)),
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
                        condition=models.Q(
                            ("expires_at__gt", models.F("created_at")),
                            (
                                "expires_at__lte",
                                django.db.models.expressions.CombinedExpression(
                                    models.F("created_at"),
                                    "+",
                                    models.Value(datetime.timedelta(seconds=600)),
                                ),
                            ),
                        ),
                        name="identity_device_login_lives_ten_minutes",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decided_at", None), ("is_approved", False), ("user", None)),
                            models.Q(("decided_at__isnull", False), ("user__isnull", False)),
                            _connector="OR",
                        ),
                        name="identity_device_login_decided_by_a_person",
                    ),
                ],
            },
        ),
    ]
