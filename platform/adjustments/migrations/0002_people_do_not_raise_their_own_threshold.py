"""Thresholds remember their last change, and months before a closed one are closed."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

_CLOSED_TO = """
CREATE OR REPLACE FUNCTION month_is_closed(uuid, date) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM periods_billingperiod p WHERE p.organization_id = $1 AND p.month >= $2
    )
$$;
"""

_CLOSED_ONE = """
CREATE OR REPLACE FUNCTION month_is_closed(uuid, date) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM periods_billingperiod p WHERE p.organization_id = $1 AND p.month = $2
    )
$$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("adjustments", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="adjustmentpolicy",
            name="changed_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="adjustmentpolicy",
            name="changed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="adjustmentpolicy",
            name="before_nano",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddConstraint(
            model_name="adjustmentpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("before_nano", None), ("changed_at", None), ("changed_by", None)),
                    models.Q(
                        ("before_nano__gte", 0),
                        ("before_nano__isnull", False),
                        ("changed_at__isnull", False),
                        ("changed_by__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="threshold_remembers_its_last_change",
            ),
        ),
        migrations.RunSQL(_CLOSED_TO, _CLOSED_ONE),
    ]
