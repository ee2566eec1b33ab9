"""Nodes have accounting codes by month, and charges of closed months keep theirs."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
-- A month is closed with the codes of its nodes, and keeps them. Only an end changes.
CREATE FUNCTION accounting_code_keeps_closed_months() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    opens date;
BEGIN
    SELECT (MAX(p.month) + interval '1 month')::date INTO opens
    FROM periods_billingperiod p
    JOIN tenants_node n ON n.organization_id = p.organization_id
    WHERE n.id = CASE WHEN TG_OP = 'DELETE' THEN OLD.node_id ELSE NEW.node_id END;
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.id, NEW.node_id, NEW.kind, NEW.code, NEW.start, NEW.set_at, NEW.set_by)
           IS DISTINCT FROM
           (OLD.id, OLD.node_id, OLD.kind, OLD.code, OLD.start, OLD.set_at, OLD.set_by) THEN
            RAISE EXCEPTION 'only the end of an accounting code changes'
                USING ERRCODE = 'check_violation';
        END IF;
        IF LEAST(OLD."end", NEW."end") < opens THEN
            RAISE EXCEPTION 'closed months keep their accounting codes'
                USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (CASE WHEN TG_OP = 'DELETE' THEN OLD.start ELSE NEW.start END) < opens THEN
        RAISE EXCEPTION 'closed months keep their accounting codes'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END
$$;
CREATE TRIGGER accounting_code_keeps_closed_months
    BEFORE INSERT OR DELETE OR UPDATE ON periods_accountingcode
    FOR EACH ROW
    EXECUTE FUNCTION accounting_code_keeps_closed_months();
"""

_NO_RULES = """
DROP TRIGGER accounting_code_keeps_closed_months ON periods_accountingcode;
DROP FUNCTION accounting_code_keeps_closed_months();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("periods", "0005_adjustments_are_lines_of_statements"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.AddField(
            model_name="chargerow",
            name="cost_centre",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
        migrations.AddField(
            model_name="chargerow",
            name="project_code",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
        migrations.AddField(
            model_name="statementline",
            name="cost_centre",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
        migrations.AddField(
            model_name="statementline",
            name="project_code",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
        migrations.CreateModel(
            name="AccountingCode",
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
                (
                    "kind",
                    models.CharField(
                        choices=[("cost_centre", "Cost Centre"), ("project_code", "Project Code")],
                        max_length=12,
                    ),
                ),
                ("code", models.CharField(max_length=64)),
                ("start", models.DateField()),
                ("end", models.DateField(null=True)),
                ("set_at", models.DateTimeField()),
                ("set_by", models.CharField(max_length=200)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="accounting_codes",
                        to="tenants.node",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["cost_centre", "project_code"])),
                        name="accounting_code_kind_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("code__regex", "\\A[A-Za-z0-9][A-Za-z0-9 ._/-]*\\Z")),
                        name="accounting_code_is_plain",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("start__day", 1),
                            models.Q(
                                ("end", None),
                                models.Q(("end__day", 1), ("end__gt", models.F("start"))),
                                _connector="OR",
                            ),
                        ),
                        name="accounting_code_has_whole_months",
                    ),
                    django.contrib.postgres.constraints.ExclusionConstraint(
                        expressions=[
                            ("node", "="),
                            ("kind", "="),
                            (
                                models.Func(
                                    "start",
                                    "end",
                                    django.contrib.postgres.fields.ranges.RangeBoundary(),
                                    function="DATERANGE",
                                ),
                                "&&",
                            ),
                        ],
                        name="node_has_one_accounting_code_at_a_time",
                    ),
                ],
            },
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
