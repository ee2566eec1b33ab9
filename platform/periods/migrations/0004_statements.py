"""Statements of closed months, with numbers without gaps."""

import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
CREATE TRIGGER statement_is_append_only
    BEFORE DELETE OR UPDATE ON periods_statement
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_change_history();

CREATE TRIGGER statement_line_is_append_only
    BEFORE DELETE OR UPDATE ON periods_statementline
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_change_history();

-- The lines are written before their statement, so an issued one gets no more of them.
CREATE FUNCTION refuse_lines_of_issued_statements() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM periods_statement s WHERE s.id = NEW.statement_id) THEN
        RAISE EXCEPTION 'the statement is issued and gets no more lines'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER issued_statement_gets_no_lines
    BEFORE INSERT ON periods_statementline
    FOR EACH ROW
    EXECUTE FUNCTION refuse_lines_of_issued_statements();

-- Only the numbering below counts, in the transaction of its statement.
CREATE FUNCTION refuse_to_count_statements() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() < 2 THEN
        RAISE EXCEPTION 'only a new statement counts' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER only_statements_count
    BEFORE INSERT OR DELETE OR UPDATE ON periods_statementcounter
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_count_statements();

-- A statement gets the next number of its organization and year, and has all of its lines.
CREATE FUNCTION issue_statement() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    original periods_statement;
BEGIN
    INSERT INTO periods_statementcounter (organization_id, year, last)
    VALUES (NEW.organization_id, NEW.year, 1)
    ON CONFLICT (organization_id, year) DO UPDATE SET last = periods_statementcounter.last + 1
    RETURNING last INTO NEW.sequence;
    IF (SELECT (COUNT(*), COALESCE(SUM(l.amount_cents), 0), COALESCE(MAX(l.number), 0))
        FROM periods_statementline l WHERE l.statement_id = NEW.id)
       IS DISTINCT FROM (NEW.line_count::bigint, NEW.total_cents::numeric, NEW.line_count) THEN
        RAISE EXCEPTION 'the statement is not the sum of its lines'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.kind = 'statement' AND EXISTS (
        SELECT FROM periods_statement s
        JOIN periods_statementline theirs ON theirs.statement_id = s.id
        JOIN periods_statementline ours
          ON ours.statement_id = NEW.id AND ours.team_path = theirs.team_path
        WHERE s.period_id = NEW.period_id AND s.kind = 'statement'
          AND NOT EXISTS (SELECT FROM periods_statement c WHERE c.credits_id = s.id)
    ) THEN
        RAISE EXCEPTION 'a team has a statement of this month already'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.kind = 'credit_note' THEN
        SELECT * INTO original FROM periods_statement s WHERE s.id = NEW.credits_id;
        IF (original.kind, original.period_id, original.organization_id, original.currency,
            original.total_cents)
           IS DISTINCT FROM ('statement', NEW.period_id, NEW.organization_id, NEW.currency,
                             -NEW.total_cents) THEN
            RAISE EXCEPTION 'the credit note is not of its statement'
                USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER statement_is_issued
    BEFORE INSERT ON periods_statement
    FOR EACH ROW
    EXECUTE FUNCTION issue_statement();
"""

_NO_RULES = """
DROP TRIGGER statement_is_issued ON periods_statement;
DROP FUNCTION issue_statement();
DROP TRIGGER only_statements_count ON periods_statementcounter;
DROP FUNCTION refuse_to_count_statements();
DROP TRIGGER issued_statement_gets_no_lines ON periods_statementline;
DROP FUNCTION refuse_lines_of_issued_statements();
DROP TRIGGER statement_line_is_append_only ON periods_statementline;
DROP TRIGGER statement_is_append_only ON periods_statement;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("periods", "0003_charges_beside_use"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="Statement",
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
                        choices=[("statement", "Statement"), ("credit_note", "Credit Note")],
                        max_length=11,
                    ),
                ),
                ("year", models.IntegerField()),
                ("sequence", models.IntegerField(default=0)),
                ("unit_path", models.CharField(max_length=1024)),
                ("unit_name", models.CharField(max_length=200)),
                ("currency", models.CharField(max_length=3)),
                ("total_cents", models.BigIntegerField()),
                ("line_count", models.IntegerField()),
                ("issued_at", models.DateTimeField()),
                ("issued_by", models.CharField(max_length=200)),
                ("due_on", models.DateField(null=True)),
                ("terms", models.CharField(blank=True, max_length=500)),
                ("reason", models.CharField(blank=True, max_length=500)),
                (
                    "credits",
                    models.OneToOneField(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="credit_note",
                        to="periods.statement",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "period",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="statements",
                        to="periods.billingperiod",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StatementCounter",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "organization_id",
                        "year",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("year", models.IntegerField()),
                ("last", models.IntegerField()),
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
            name="StatementLine",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("number", models.IntegerField()),
                ("month", models.DateField()),
                ("is_correction", models.BooleanField()),
                ("team_path", models.CharField(max_length=1024)),
                ("pool", models.CharField(max_length=63)),
                ("device", models.CharField(max_length=8)),
                ("usage_class", models.CharField(max_length=10)),
                ("mgpu_s", models.BigIntegerField()),
                ("cost_nano", models.BigIntegerField()),
                ("amount_cents", models.BigIntegerField()),
                (
                    "statement",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
                        to="periods.statement",
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
            model_name="statement",
            constraint=models.UniqueConstraint(
                fields=("organization", "year", "sequence"), name="statement_number_is_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="statement",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("credits", None), ("kind", "statement"), ("reason", "")),
                    models.Q(
                        ("credits__isnull", False),
                        ("kind", "credit_note"),
                        models.Q(("reason", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="credit_note_says_what_and_why",
            ),
        ),
        migrations.AddConstraint(
            model_name="statement",
            constraint=models.CheckConstraint(
                condition=models.Q(("currency__regex", "\\A[A-Z]{3}\\Z")),
                name="statement_has_a_currency",
            ),
        ),
        migrations.AddConstraint(
            model_name="statementline",
            constraint=models.UniqueConstraint(
                fields=("statement", "number"), name="statement_line_has_a_number"
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
