"""Children's guarantees sum to at most their parent's, at every commit; history stays."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0001_initial"),
        ("audit", "0002_history_is_append_only"),
    ]

    operations = [
        migrations.RunSQL(
            sql="""
            -- Locks the parent's quota row first, so that two transactions that each add a
            -- child wait for one another instead of both seeing room.
            CREATE FUNCTION refuse_broken_envelope(parent uuid, in_pool uuid) RETURNS void
            LANGUAGE plpgsql AS $$
            DECLARE own bigint; below bigint;
            BEGIN
                SELECT guaranteed_mgpu INTO own FROM quotas_quota
                    WHERE node_id = parent AND pool_id = in_pool FOR UPDATE;
                SELECT coalesce(sum(q.guaranteed_mgpu), 0) INTO below
                    FROM quotas_quota q JOIN tenants_node n ON n.id = q.node_id
                    WHERE n.parent_id = parent AND q.pool_id = in_pool;
                IF below > coalesce(own, 0) THEN
                    RAISE EXCEPTION 'children are guaranteed % milli-GPU, their parent only %',
                            below, coalesce(own, 0)
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'quota_children_fit_in_their_parent';
                END IF;
            END $$;
            CREATE FUNCTION keep_quota_envelope() RETURNS trigger
            LANGUAGE plpgsql AS $$
            DECLARE above uuid;
            BEGIN
                IF TG_OP <> 'INSERT' THEN
                    SELECT parent_id INTO above FROM tenants_node WHERE id = OLD.node_id;
                    IF above IS NOT NULL THEN
                        PERFORM refuse_broken_envelope(above, OLD.pool_id);
                    END IF;
                    PERFORM refuse_broken_envelope(OLD.node_id, OLD.pool_id);
                END IF;
                IF TG_OP <> 'DELETE' THEN
                    SELECT parent_id INTO above FROM tenants_node WHERE id = NEW.node_id;
                    IF above IS NOT NULL THEN
                        PERFORM refuse_broken_envelope(above, NEW.pool_id);
                    END IF;
                    PERFORM refuse_broken_envelope(NEW.node_id, NEW.pool_id);
                END IF;
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER quota_children_fit_in_their_parent
                AFTER INSERT OR UPDATE OR DELETE ON quotas_quota
                DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION keep_quota_envelope();
            CREATE TRIGGER quota_change_is_append_only
                BEFORE UPDATE OR DELETE ON quotas_quotachange
                FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
            """,
            reverse_sql="""
            DROP TRIGGER quota_change_is_append_only ON quotas_quotachange;
            DROP TRIGGER quota_children_fit_in_their_parent ON quotas_quota;
            DROP FUNCTION keep_quota_envelope();
            DROP FUNCTION refuse_broken_envelope(uuid, uuid);
            """,
        ),
    ]
