"""Author and time of each price, and a trigger: no price changes or goes after its start."""

from django.db import migrations, models

_RULES = """
CREATE FUNCTION keep_rate_lines() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF to_jsonb(NEW) - 'end' IS DISTINCT FROM to_jsonb(OLD) - 'end' THEN
            RAISE EXCEPTION 'rate_line_changes_only_its_end'
                USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    -- A minute, because the clocks of the portal and of the database may differ.
    IF OLD.start < now() - interval '1 minute' THEN
        RAISE EXCEPTION 'rate_line_stays_after_its_start' USING ERRCODE = 'check_violation';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER rate_lines_are_kept
    BEFORE DELETE OR UPDATE ON billing_rateline
    FOR EACH ROW
    EXECUTE FUNCTION keep_rate_lines();
"""

_NO_RULES = """
DROP TRIGGER rate_lines_are_kept ON billing_rateline;
DROP FUNCTION keep_rate_lines();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0003_rate_lines_price_unpaid_use"),
    ]

    operations = [
        migrations.AddField(
            model_name="rateline",
            name="added_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="rateline",
            name="added_by",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
