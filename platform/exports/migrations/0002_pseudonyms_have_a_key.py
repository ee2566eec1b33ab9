"""Keys of pseudonyms in FOCUS files."""

import django.db.models.deletion
import django.db.models.lookups
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("exports", "0001_schema"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.AlterField(
            model_name="export",
            name="dataset",
            field=models.CharField(
                choices=[
                    ("charges", "Charges"),
                    ("focus_cost_and_usage", "Focus Cost And Usage"),
                    ("focus_billing_period", "Focus Billing Period"),
                ],
                max_length=32,
            ),
        ),
        migrations.CreateModel(
            name="PseudonymKey",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="tenants.node",
                    ),
                ),
                ("key", models.BinaryField(max_length=32)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.GreaterThanOrEqual(
                                models.Func(
                                    "key",
                                    function="octet_length",
                                    output_field=models.IntegerField(),
                                ),
                                32,
                            )
                        ),
                        name="pseudonym_key_is_long_enough",
                    )
                ],
            },
        ),
    ]
