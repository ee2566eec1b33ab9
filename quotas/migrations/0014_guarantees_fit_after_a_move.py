"""Children's guarantees sum to at most their parent's also where a node gets another parent."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0013_organizations_have_time_zones"),
        ("tenants", "0007_nodes_are_moved"),
    ]

    operations = [
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION keep_quota_envelope_of_moved_node() RETURNS trigger
            LANGUAGE plpgsql AS $$
            DECLARE pool uuid;
            BEGIN
                FOR pool IN SELECT pool_id FROM quotas_quota
                        WHERE node_id = NEW.id ORDER BY pool_id LOOP
                    PERFORM refuse_broken_envelope(NEW.parent_id, pool);
                END LOOP;
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER quota_children_fit_in_their_parent
                AFTER UPDATE ON tenants_node
                DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW WHEN (OLD.parent_id <> NEW.parent_id)
                EXECUTE FUNCTION keep_quota_envelope_of_moved_node();
            """,
            reverse_sql="""
            DROP TRIGGER quota_children_fit_in_their_parent ON tenants_node;
            DROP FUNCTION keep_quota_envelope_of_moved_node();
            """,
        ),
    ]
