"""Intentions that are stored with the change that caused them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    # An installation of the last unreleased version has all of this.
    replaces = [
        ("outbox", "0001_initial"),
        ("outbox", "0002_quarantine"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=32)),
                ("subject", models.UUIDField()),
                ("shard", models.CharField(blank=True, max_length=64)),
                ("created_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("sends", models.IntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("done_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("done_at", None)),
                        fields=["shard", "due_at"],
                        name="message_to_send",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("kind", "subject"), name="intention_stored_once_per_subject"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Quarantine",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("reason", models.TextField()),
                ("since", models.DateTimeField()),
                ("began_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("answers", models.JSONField(default=dict)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("ended_at",), name="one_quarantine_goes_on", nulls_distinct=False
                    )
                ],
            },
        ),
    ]
