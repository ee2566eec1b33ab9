"""Statements have a line for each adjustment of their month."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("adjustments", "0001_schema"),
        ("periods", "0004_statements"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.AddField(
            model_name="statementline",
            name="adjustment",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="adjustments.adjustment",
            ),
        ),
        migrations.AlterField(
            model_name="statementline",
            name="pool",
            field=models.CharField(blank=True, max_length=63),
        ),
        migrations.AddConstraint(
            model_name="statementline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("adjustment", None),
                        models.Q(("usage_class__in", ("adjustment", "refund")), _negated=True),
                    ),
                    models.Q(
                        ("adjustment__isnull", False),
                        ("mgpu_s", 0),
                        ("usage_class__in", ("adjustment", "refund")),
                    ),
                    _connector="OR",
                ),
                name="adjustments_have_lines_of_their_own",
            ),
        ),
        migrations.AddConstraint(
            model_name="statementline",
            constraint=models.UniqueConstraint(
                fields=("statement", "adjustment"), name="statement_has_an_adjustment_once"
            ),
        ),
    ]
