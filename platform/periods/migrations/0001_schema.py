"""Closed months and their charges."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
CREATE TRIGGER billing_period_is_append_only
    BEFORE DELETE OR UPDATE ON periods_billingperiod
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_change_history();

CREATE TRIGGER charge_row_is_append_only
    BEFORE DELETE OR UPDATE ON periods_chargerow
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_change_history();

-- The charges of a month are written before the month, so a closed month gets no more of them.
CREATE FUNCTION refuse_charges_of_closed_periods() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM periods_billingperiod p WHERE p.id = NEW.period_id) THEN
        RAISE EXCEPTION 'the month is closed and gets no more charges'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER closed_period_gets_no_charges
    BEFORE INSERT ON periods_chargerow
    FOR EACH ROW
    EXECUTE FUNCTION refuse_charges_of_closed_periods();

-- A month is closed with all of its charges, numbered without gaps.
CREATE FUNCTION check_charges_of_period() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT COUNT(*) FROM periods_chargerow r
        WHERE r.period_id = NEW.id AND r.number BETWEEN 1 AND NEW.row_count) <> NEW.row_count
       OR EXISTS (SELECT FROM periods_chargerow r
                  WHERE r.period_id = NEW.id AND r.number NOT BETWEEN 1 AND NEW.row_count) THEN
        RAISE EXCEPTION 'the month has not all of its charges'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER period_has_all_charges
    BEFORE INSERT ON periods_billingperiod
    FOR EACH ROW
    EXECUTE FUNCTION check_charges_of_period();
"""

_NO_RULES = """
DROP TRIGGER period_has_all_charges ON periods_billingperiod;
DROP FUNCTION check_charges_of_period();
DROP TRIGGER closed_period_gets_no_charges ON periods_chargerow;
DROP FUNCTION refuse_charges_of_closed_periods();
DROP TRIGGER charge_row_is_append_only ON periods_chargerow;
DROP TRIGGER billing_period_is_append_only ON periods_billingperiod;
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("audit", "0001_schema"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="BillingPeriod",
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
                ("month", models.DateField()),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField()),
                ("time_zone", models.CharField(max_length=64)),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("closed_at", models.DateTimeField()),
                ("closed_by", models.CharField(max_length=200)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("row_count", models.IntegerField()),
                ("digest", models.CharField(max_length=64)),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ChargeRow",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("number", models.IntegerField()),
                ("is_correction", models.BooleanField()),
                ("month", models.DateField()),
                ("day", models.DateField()),
                ("team_path", models.CharField(max_length=1024)),
                ("pool", models.CharField(max_length=63)),
                ("device", models.CharField(max_length=8)),
                ("usage_class", models.CharField(max_length=10)),
                ("mgpu_s", models.BigIntegerField()),
                ("unpriced_mgpu_s", models.BigIntegerField()),
                ("cost_nano", models.BigIntegerField()),
                (
                    "period",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rows",
                        to="periods.billingperiod",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="billingperiod",
            constraint=models.UniqueConstraint(
                fields=("organization", "month"), name="month_closed_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="billingperiod",
            constraint=models.CheckConstraint(
                condition=models.Q(("end__gt", models.F("start"))), name="period_has_a_length"
            ),
        ),
        migrations.AddConstraint(
            model_name="billingperiod",
            constraint=models.CheckConstraint(
                condition=models.Q(("closed_at__gte", models.F("end"))),
                name="period_closed_after_its_end",
            ),
        ),
        migrations.AddConstraint(
            model_name="billingperiod",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[
                    ("organization", "="),
                    (
                        models.Func(
                            "start",
                            "end",
                            django.contrib.postgres.fields.ranges.RangeBoundary(),
                            function="TSTZRANGE",
                        ),
                        "&&",
                    ),
                ],
                name="periods_do_not_overlap",
            ),
        ),
        migrations.AddConstraint(
            model_name="chargerow",
            constraint=models.UniqueConstraint(
                fields=("period", "number"), name="charge_row_has_a_number"
            ),
        ),
        migrations.AddConstraint(
            model_name="chargerow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("is_correction", True),
                    models.Q(
                        ("cost_nano__gte", 0), ("mgpu_s__gte", 0), ("unpriced_mgpu_s__gte", 0)
                    ),
                    _connector="OR",
                ),
                name="only_corrections_are_negative",
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
