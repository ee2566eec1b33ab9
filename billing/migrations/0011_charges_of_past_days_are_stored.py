"""Stored charges of past days, and notes of what changed since."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.db import migrations, models

_RULES = """
-- The charges of a day depend on the segments that began before, so all later days are changed. The
-- second before counts too: an attempt that goes on is not rounded up at its former end.
CREATE FUNCTION note_changed_charges() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO billing_changedcharges (organization_id, start)
    SELECT a.organization_id, MIN(c.start) - interval '1 second'
    FROM changed c JOIN billing_meteredattempt a ON a.id = c.attempt_id
    WHERE c.start < now() - interval '48 hours'
    GROUP BY a.organization_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER new_segments_change_charges
    AFTER INSERT ON billing_usagesegment
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_charges();
CREATE TRIGGER deleted_segments_change_charges
    AFTER DELETE ON billing_usagesegment
    REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_charges();

-- Where only the end moved, nothing before the earlier end is other than it was.
CREATE FUNCTION note_charges_after_an_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO billing_changedcharges (organization_id, start)
    SELECT a.organization_id, MIN(c.start) - interval '1 second'
    FROM (
        SELECT n.attempt_id,
               CASE WHEN (o.attempt_id, o.start, o.guaranteed_mgpu, o.borrowed_mgpu, o.unpaid_mgpu,
                          o.fault)
                       = (n.attempt_id, n.start, n.guaranteed_mgpu, n.borrowed_mgpu, n.unpaid_mgpu,
                          n.fault)
                    THEN LEAST(o."end", n."end") ELSE LEAST(o.start, n.start) END AS start
        FROM was o JOIN is_now n ON n.id = o.id
    ) AS c
    JOIN billing_meteredattempt a ON a.id = c.attempt_id
    WHERE c.start < now() - interval '48 hours'
    GROUP BY a.organization_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER updated_segments_change_charges
    AFTER UPDATE ON billing_usagesegment
    REFERENCING OLD TABLE AS was NEW TABLE AS is_now
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_charges_after_an_update();

-- Only the end of a price or of terms ever moves.
CREATE FUNCTION note_changed_prices() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO billing_changedcharges (organization_id, start)
    SELECT c.organization_id, moment.start - interval '1 second'
    FROM billing_ratecard c
    CROSS JOIN LATERAL (
        SELECT CASE TG_OP WHEN 'INSERT' THEN NEW.start WHEN 'DELETE' THEN OLD.start
                          ELSE LEAST(OLD."end", NEW."end") END AS start
    ) AS moment
    WHERE c.id = COALESCE(NEW.card_id, OLD.card_id)
      AND moment.start < now() - interval '48 hours';
    RETURN NULL;
END
$$;
CREATE TRIGGER prices_change_charges
    AFTER INSERT OR UPDATE OR DELETE ON billing_rateline
    FOR EACH ROW
    EXECUTE FUNCTION note_changed_prices();
CREATE TRIGGER terms_change_charges
    AFTER INSERT OR UPDATE OR DELETE ON billing_poolterms
    FOR EACH ROW
    EXECUTE FUNCTION note_changed_prices();
"""
_NO_RULES = """
DROP TRIGGER terms_change_charges ON billing_poolterms;
DROP TRIGGER prices_change_charges ON billing_rateline;
DROP FUNCTION note_changed_prices();
DROP TRIGGER updated_segments_change_charges ON billing_usagesegment;
DROP FUNCTION note_charges_after_an_update();
DROP TRIGGER deleted_segments_change_charges ON billing_usagesegment;
DROP TRIGGER new_segments_change_charges ON billing_usagesegment;
DROP FUNCTION note_changed_charges();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0010_segments_are_found_by_time"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChangedCharges",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StoredDay",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StoredCharge",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("team_id", models.UUIDField()),
                ("pool_id", models.UUIDField()),
                ("user_id", models.UUIDField()),
                ("cluster_id", models.UUIDField()),
                ("usage_class", models.SmallIntegerField()),
                ("fault", models.CharField(blank=True, max_length=11)),
                ("priority_class", models.CharField(max_length=63)),
                ("multiplier_ppm", models.PositiveIntegerField()),
                ("job_type", models.CharField(blank=True, max_length=12)),
                ("rate_line_id", models.UUIDField(null=True)),
                ("price_nano", models.BigIntegerField(null=True)),
                ("mode", models.CharField(max_length=11)),
                ("mgpu_s", models.BigIntegerField()),
                ("extra_mgpu_s", models.BigIntegerField()),
                ("cost_nano", models.BigIntegerField()),
                (
                    "day",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="charges",
                        to="billing.storedday",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="storedday",
            constraint=models.CheckConstraint(
                condition=models.Q(("end__gt", models.F("start"))), name="stored_day_has_a_length"
            ),
        ),
        migrations.AddConstraint(
            model_name="storedday",
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
                name="a_moment_is_stored_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="storedcharge",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("extra_mgpu_s", 0), ("mgpu_s__gt", 0)),
                    models.Q(("extra_mgpu_s__gt", 0), ("mgpu_s", 0)),
                    _connector="OR",
                ),
                name="stored_charge_is_some",
            ),
        ),
        migrations.AddConstraint(
            model_name="storedcharge",
            constraint=models.CheckConstraint(
                condition=models.Q(("cost_nano__gte", 0)), name="stored_charge_is_not_negative"
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
