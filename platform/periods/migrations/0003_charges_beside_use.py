"""Charges of closed months are commitments and top-ups, too, and say their mode."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0009_pools_have_terms"),
        ("periods", "0002_charges_are_by_user_and_job_type"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="chargerow",
            name="only_corrections_are_negative",
        ),
        migrations.AddField(
            model_name="chargerow",
            name="extra_mgpu_s",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="chargerow",
            name="mode",
            field=models.CharField(default="pay_per_use", max_length=11),
        ),
        migrations.AlterField(
            model_name="chargerow",
            name="cluster",
            field=models.CharField(blank=True, max_length=63),
        ),
        migrations.AlterField(
            model_name="chargerow",
            name="priority_class",
            field=models.CharField(blank=True, max_length=63),
        ),
        migrations.AlterField(
            model_name="chargerow",
            name="user",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="chargerow",
            name="username",
            field=models.CharField(blank=True, max_length=63),
        ),
        migrations.AddConstraint(
            model_name="chargerow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("is_correction", True),
                    models.Q(("cost_nano__gte", 0), ("extra_mgpu_s", 0), ("mgpu_s__gt", 0)),
                    models.Q(("cost_nano__gte", 0), ("extra_mgpu_s__gt", 0), ("mgpu_s", 0)),
                    _connector="OR",
                ),
                name="only_corrections_are_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="chargerow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("usage_class", "commitment"), ("user", None)),
                    models.Q(
                        models.Q(("usage_class", "commitment"), _negated=True),
                        ("user__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="only_commitments_have_no_user",
            ),
        ),
    ]
