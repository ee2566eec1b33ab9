"""That the tree, quotas, classes or rules changed is noted too, as that nodes did."""

from django.db import migrations

_NOTED = ("tenants_node", "quotas_quota", "quotas_priorityclass", "quotas_organizationpolicy")


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0027_no_index_of_priority_classes"),
        ("quotas", "0010_policy_of_costly_losses"),
        ("tenants", "0003_sessions_end_and_attempts_count"),
    ]

    operations = [
        # Whatever changes of them: it seldom does, and a new column is noted by itself.
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION note_changed_quotas() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO jobs_change (transaction) VALUES (pg_current_xact_id()::text::bigint);
                RETURN NULL;
            END $$;
            """,
            reverse_sql="DROP FUNCTION note_changed_quotas();",
        ),
        *(
            migrations.RunSQL(
                sql=f"""
                CREATE TRIGGER changed_quotas_are_noted
                    AFTER INSERT OR DELETE OR UPDATE ON {table}
                    FOR EACH STATEMENT EXECUTE FUNCTION note_changed_quotas();
                """,
                reverse_sql=f"DROP TRIGGER changed_quotas_are_noted ON {table};",
            )
            for table in _NOTED
        ),
    ]
