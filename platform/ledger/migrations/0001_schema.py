"""Accounts, transfers, their entries, and what is pending."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Account",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("ledger", models.CharField(max_length=64)),
                ("owner", models.CharField(max_length=64)),
                ("kind", models.CharField(max_length=32)),
                ("floor", models.BigIntegerField(null=True)),
                ("cap", models.BigIntegerField(null=True)),
                ("posted_debits", models.BigIntegerField(default=0)),
                ("posted_credits", models.BigIntegerField(default=0)),
                ("pending_debits", models.BigIntegerField(default=0)),
                ("pending_credits", models.BigIntegerField(default=0)),
                ("sequence", models.BigIntegerField(default=0)),
                ("head", models.BinaryField(max_length=32)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("ledger", "owner", "kind"), name="account_is_unique"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("ledger__regex", "\\A[a-z]+:[A-Za-z0-9._-]+\\Z")),
                        name="account_ledger_name",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind__regex", "\\A[a-z][a-z0-9_]*\\Z"),
                            models.Q(("owner", ""), _negated=True),
                        ),
                        name="account_names_are_plain",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("floor", None),
                            ("cap", None),
                            ("floor__lte", models.F("cap")),
                            _connector="OR",
                        ),
                        name="account_floor_is_below_its_cap",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("pending_credits__gte", 0),
                            ("pending_debits__gte", 0),
                            ("posted_credits__gte", 0),
                            ("posted_debits__gte", 0),
                            ("sequence__gte", 0),
                        ),
                        name="account_sums_are_not_negative",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Transfer",
            fields=[
                ("number", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.UUIDField(unique=True)),
                ("body_hash", models.BinaryField(max_length=32)),
                ("amount", models.BigIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("posted", "Posted"),
                            ("voided", "Voided"),
                        ],
                        max_length=8,
                    ),
                ),
                ("code", models.CharField(max_length=32)),
                ("enforces_limits", models.BooleanField(default=True)),
                ("effective_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("reference", models.CharField(blank=True, max_length=128)),
                ("reason", models.CharField(blank=True, max_length=500)),
                (
                    "credit",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ledger.account",
                    ),
                ),
                (
                    "debit",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ledger.account",
                    ),
                ),
                (
                    "resolves",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ledger.transfer",
                        to_field="key",
                    ),
                ),
                (
                    "reverses",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ledger.transfer",
                        to_field="key",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Entry",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "account_id",
                        "sequence",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("sequence", models.BigIntegerField()),
                ("balance", models.BigIntegerField()),
                ("held", models.BigIntegerField()),
                ("incoming", models.BigIntegerField()),
                ("hash", models.BinaryField(max_length=32)),
                (
                    "account",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="entries",
                        to="ledger.account",
                    ),
                ),
                (
                    "transfer",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="entries",
                        to="ledger.transfer",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PendingTransfer",
            fields=[
                (
                    "transfer",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="pending",
                        serialize=False,
                        to="ledger.transfer",
                    ),
                ),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["expires_at"], name="pending_by_expiry")],
            },
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount__gte", 1), ("amount__lte", 1000000000000000000)),
                name="transfer_moves_something",
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(
                condition=models.Q(("debit", models.F("credit")), _negated=True),
                name="transfer_has_two_accounts",
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(
                condition=models.Q(("code__regex", "\\A[a-z][a-z0-9_]*\\Z")),
                name="transfer_code_is_plain",
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("expires_at__gt", models.F("created_at")),
                        ("expires_at__isnull", False),
                        ("state", "pending"),
                    ),
                    models.Q(models.Q(("state", "pending"), _negated=True), ("expires_at", None)),
                    _connector="OR",
                ),
                name="transfer_expires_if_pending",
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("resolves", None), ("reverses", None), ("state", "pending")),
                    models.Q(("resolves__isnull", False), ("reverses", None), ("state", "voided")),
                    models.Q(
                        ("state", "posted"),
                        models.Q(("resolves", None), ("reverses", None), _connector="OR"),
                    ),
                    _connector="OR",
                ),
                name="transfer_has_one_purpose",
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.UniqueConstraint(
                condition=models.Q(("resolves__isnull", False)),
                fields=("resolves",),
                name="transfer_is_resolved_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.UniqueConstraint(
                condition=models.Q(("reverses__isnull", False)),
                fields=("reverses",),
                name="transfer_is_reversed_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="entry",
            constraint=models.UniqueConstraint(
                fields=("transfer", "account"), name="entry_once_per_transfer_and_account"
            ),
        ),
    ]
