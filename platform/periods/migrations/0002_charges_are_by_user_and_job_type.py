"""Charges of closed months are by user, cluster, price and type of job, too."""

from uuid import UUID

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0008_attempts_have_a_job_type"),
        ("periods", "0001_schema"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # Charges that were closed before lack unpaid use. Those months are open again.
        migrations.RunSQL(
            "TRUNCATE periods_chargerow, periods_billingperiod", migrations.RunSQL.noop
        ),
        migrations.RemoveConstraint(
            model_name="chargerow",
            name="only_corrections_are_negative",
        ),
        migrations.RemoveField(
            model_name="chargerow",
            name="unpriced_mgpu_s",
        ),
        migrations.AddField(
            model_name="chargerow",
            name="cluster",
            field=models.CharField(default="", max_length=63),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="chargerow",
            name="fault",
            field=models.CharField(blank=True, max_length=11),
        ),
        migrations.AddField(
            model_name="chargerow",
            name="job_type",
            field=models.CharField(blank=True, max_length=12),
        ),
        migrations.AddField(
            model_name="chargerow",
            name="multiplier_ppm",
            field=models.PositiveIntegerField(default=1_000_000),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="chargerow",
            name="price_nano",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="chargerow",
            name="priority_class",
            field=models.CharField(default="", max_length=63),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="chargerow",
            name="rate_line",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="billing.rateline",
            ),
        ),
        migrations.AddField(
            model_name="chargerow",
            name="user",
            field=models.ForeignKey(
                db_index=False,
                default=UUID(int=0),
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="chargerow",
            name="username",
            field=models.CharField(default="", max_length=63),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name="chargerow",
            index=models.Index(fields=["day", "period"], name="charge_row_by_day"),
        ),
        migrations.AddConstraint(
            model_name="chargerow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("is_correction", True),
                    models.Q(("cost_nano__gte", 0), ("mgpu_s__gt", 0)),
                    _connector="OR",
                ),
                name="only_corrections_are_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="chargerow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("price_nano", 0), ("rate_line", None), ("usage_class", "fault")),
                    models.Q(
                        models.Q(("usage_class", "fault"), _negated=True),
                        ("price_nano__isnull", False),
                        ("rate_line__isnull", False),
                    ),
                    models.Q(
                        models.Q(("usage_class", "fault"), _negated=True),
                        ("cost_nano", 0),
                        ("price_nano", None),
                        ("rate_line", None),
                    ),
                    _connector="OR",
                ),
                name="charge_row_costs_its_price",
            ),
        ),
        migrations.AddConstraint(
            model_name="chargerow",
            constraint=models.CheckConstraint(
                condition=models.Q(("usage_class", "fault"), ("fault", ""), _connector="OR"),
                name="only_faults_have_a_reason",
            ),
        ),
    ]
