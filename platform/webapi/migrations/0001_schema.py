"""Answers of requests that carry an idempotency key."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    # An installation of the last unreleased version has all of this.
    replaces = [
        ("webapi", "0001_initial"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="IdempotentAnswer",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("principal_id", models.UUIDField()),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.BinaryField(max_length=32)),
                ("status", models.PositiveSmallIntegerField()),
                ("body", models.JSONField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["created_at"], name="idempotent_answer_by_age")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("principal_id", "key"), name="idempotency_key_answered_once"
                    )
                ],
            },
        ),
    ]
