"""Ends of prices that nobody can change once they have passed, nor move into the past."""

from django.db import migrations

_FUNCTION = """
CREATE OR REPLACE FUNCTION keep_rate_lines() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF to_jsonb(NEW) - 'end' IS DISTINCT FROM to_jsonb(OLD) - 'end' THEN
            RAISE EXCEPTION 'rate_line_changes_only_its_end'
                USING ERRCODE = 'check_violation';
        END IF;{rule}
        RETURN NEW;
    END IF;
    -- A minute, because the clocks of the portal and of the database may differ.
    IF OLD.start < now() - interval '1 minute' THEN
        RAISE EXCEPTION 'rate_line_stays_after_its_start' USING ERRCODE = 'check_violation';
    END IF;
    RETURN OLD;
END
$$;
"""
_ENDS_STAY = """
        IF NEW."end" IS DISTINCT FROM OLD."end"
           AND LEAST(OLD."end", NEW."end") < now() - interval '1 minute' THEN
            RAISE EXCEPTION 'rate_line_keeps_its_past' USING ERRCODE = 'check_violation';
        END IF;"""


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0006_use_is_unpaid_or_lost_by_faults"),
    ]

    operations = [
        migrations.RunSQL(_FUNCTION.format(rule=_ENDS_STAY), _FUNCTION.format(rule="")),
    ]
