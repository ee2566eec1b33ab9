"""Refunds are taken back by later adjustments, in parts, and never by more than their amount."""

import django.db.models.deletion
from django.db import migrations, models

# The lock makes adjustments of one dispute wait for each other.
_TAKEN_BACK = """
CREATE OR REPLACE FUNCTION refund_is_that_of_its_dispute() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM adjustments_dispute d WHERE d.id = NEW.dispute_id FOR UPDATE;
    IF NOT EXISTS (
        SELECT FROM adjustments_dispute d
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS number, COALESCE(SUM(a.amount_nano), 0) AS sum_nano
            FROM adjustments_adjustment a WHERE a.dispute_id = d.id
        ) AS booked
        WHERE d.id = NEW.dispute_id AND d.status = 'accepted' AND d.currency = NEW.currency
            AND d.team_id = NEW.team_id AND d.organization_id = NEW.organization_id
            AND CASE booked.number
                WHEN 0 THEN NEW.amount_nano = -d.refund_nano
                ELSE NEW.amount_nano > 0 AND booked.sum_nano + NEW.amount_nano <= 0 END
    ) THEN
        RAISE EXCEPTION 'a refund is the amount of an accepted dispute'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
"""

_ONCE = """
CREATE OR REPLACE FUNCTION refund_is_that_of_its_dispute() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM adjustments_dispute d
        WHERE d.id = NEW.dispute_id AND d.status = 'accepted'
            AND d.refund_nano = -NEW.amount_nano AND d.currency = NEW.currency
            AND d.team_id = NEW.team_id AND d.organization_id = NEW.organization_id
    ) THEN
        RAISE EXCEPTION 'a refund is the amount of an accepted dispute'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("adjustments", "0003_disputes_may_be_about_rows")]

    operations = [
        migrations.AlterField(
            model_name="adjustment",
            name="dispute",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="refunds",
                to="adjustments.dispute",
            ),
        ),
        migrations.RemoveConstraint(model_name="adjustment", name="only_refunds_are_corrections"),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(("dispute", None), ("is_correction", False))
                | models.Q(("dispute__isnull", False), ("status", "done")),
                name="only_refunds_are_corrections",
            ),
        ),
        migrations.RunSQL(_TAKEN_BACK, _ONCE),
    ]
