"""A pool may have other names, by which jobs ask for it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="PoolAlias",
            fields=[
                ("folded", models.CharField(max_length=63, primary_key=True, serialize=False)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="aliases",
                        to="clusters.pool",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("folded__regex", "\\A[a-z0-9]([a-z0-9.-]*[a-z0-9])?\\Z")
                        ),
                        name="pool_alias_is_folded",
                    )
                ],
            },
        ),
    ]
