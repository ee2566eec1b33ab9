"""The append-only log of actions."""

import uuid_utils.compat
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
-- History is never rewritten.
CREATE FUNCTION refuse_to_change_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'integrity_constraint_violation',
              CONSTRAINT = TG_TABLE_NAME || '_is_append_only';
END
$$;
CREATE TRIGGER audit_event_is_append_only
    BEFORE DELETE OR UPDATE ON audit_auditevent
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_change_history();
CREATE TRIGGER audit_log_is_never_emptied
    BEFORE TRUNCATE ON audit_auditevent
    FOR EACH STATEMENT
    EXECUTE FUNCTION refuse_to_change_history();
"""

_NO_RULES = """
DROP TRIGGER audit_event_is_append_only ON audit_auditevent;
DROP TRIGGER audit_log_is_never_emptied ON audit_auditevent;
DROP FUNCTION refuse_to_change_history();
"""


class Migration(migrations.Migration):
    initial = True

    # An installation of the last unreleased version has all of this.
    replaces = [
        ("audit", "0001_initial"),
        ("audit", "0002_history_is_append_only"),
        ("audit", "0003_events_are_searched"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditEvent",
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
                ("at", models.DateTimeField()),
                ("actor_id", models.UUIDField(null=True)),
                ("actor", models.CharField(max_length=127)),
                ("action", models.CharField(max_length=64)),
                ("organization_id", models.UUIDField(null=True)),
                ("node_path", models.TextField(blank=True, db_collation="C")),
                ("subject_kind", models.CharField(max_length=32)),
                ("subject_id", models.CharField(max_length=64)),
                ("detail", models.JSONField(default=dict)),
                ("request_id", models.CharField(blank=True, max_length=64)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["organization_id", "-id"], name="audit_by_organization"),
                    models.Index(fields=["actor", "-id"], name="audit_by_actor"),
                    models.Index(
                        fields=["subject_kind", "subject_id", "-id"], name="audit_by_subject"
                    ),
                ],
            },
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
