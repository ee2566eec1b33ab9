"""Stored integrals of past days, and notes of what changed since."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

_RULES = """
-- The use of one organization decides how much the others lend, so the note names none.
CREATE FUNCTION note_changed_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history_changedhistory (start)
    SELECT MIN(start) FROM changed HAVING COUNT(*) > 0;
    RETURN NULL;
END
$$;
CREATE TRIGGER changed_charges_change_history
    AFTER INSERT ON billing_changedcharges
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_history();
"""
_NO_RULES = """
DROP TRIGGER changed_charges_change_history ON billing_changedcharges;
DROP FUNCTION note_changed_history();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0011_charges_of_past_days_are_stored"),
        ("clusters", "0001_schema"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChangedHistory",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="StoredDay",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField()),
                (
                    "capacity_mgpu_s",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), size=None
                    ),
                ),
                (
                    "nodes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StoredNode",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("node_id", models.UUIDField()),
                (
                    "levels",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.SmallIntegerField(), size=None
                    ),
                ),
                (
                    "mgpu_s",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), size=None
                    ),
                ),
                (
                    "pairs",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), size=None
                    ),
                ),
                (
                    "day",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rows",
                        to="history.storedday",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="storedday",
            constraint=models.CheckConstraint(
                condition=models.Q(("end__gt", models.F("start"))),
                name="stored_history_has_a_length",
            ),
        ),
        migrations.AddConstraint(
            model_name="storedday",
            constraint=models.UniqueConstraint(
                fields=("organization", "pool", "start", "end"), name="history_is_stored_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="storednode",
            constraint=models.UniqueConstraint(
                fields=("day", "node_id"), name="node_is_stored_once_a_day"
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
