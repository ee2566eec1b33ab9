"""The history of a quota may go with the quota, and with it only."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("quotas", "0014_guarantees_fit_after_a_move")]

    operations = [
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION keep_history_of_quota() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF TG_OP = 'UPDATE'
                        OR EXISTS (SELECT FROM quotas_quota WHERE id = OLD.quota_id) THEN
                    RAISE EXCEPTION 'the history of a quota is neither changed nor deleted'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'quota_change_is_append_only';
                END IF;
                RETURN OLD;
            END $$;
            DROP TRIGGER quota_change_is_append_only ON quotas_quotachange;
            CREATE TRIGGER quota_change_is_append_only
                BEFORE UPDATE OR DELETE ON quotas_quotachange
                FOR EACH ROW EXECUTE FUNCTION keep_history_of_quota();
            """,
            reverse_sql="""
            DROP TRIGGER quota_change_is_append_only ON quotas_quotachange;
            CREATE TRIGGER quota_change_is_append_only
                BEFORE UPDATE OR DELETE ON quotas_quotachange
                FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
            DROP FUNCTION keep_history_of_quota();
            """,
        ),
    ]
