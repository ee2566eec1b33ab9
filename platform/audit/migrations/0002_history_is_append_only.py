"""History is never rewritten: the function that refuses it, and the audit log's triggers."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]

    operations = [
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION refuse_to_change_history() RETURNS trigger
            LANGUAGE plpgsql AS $$
            BEGIN
                RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
                    USING ERRCODE = 'integrity_constraint_violation',
                          CONSTRAINT = TG_TABLE_NAME || '_is_append_only';
            END $$;
            CREATE TRIGGER audit_event_is_append_only
                BEFORE UPDATE OR DELETE ON audit_auditevent
                FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
            CREATE TRIGGER audit_log_is_never_emptied
                BEFORE TRUNCATE ON audit_auditevent
                FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_history();
            """,
            reverse_sql="""
            DROP TRIGGER audit_log_is_never_emptied ON audit_auditevent;
            DROP TRIGGER audit_event_is_append_only ON audit_auditevent;
            DROP FUNCTION refuse_to_change_history();
            """,
        ),
    ]
