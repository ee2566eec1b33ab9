"""Pools are archived; no node of an archived one takes work or counts as capacity."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0012_clusters_are_archived")]

    operations = [
        migrations.AddField(
            model_name="pool", name="archived_at", field=models.DateTimeField(null=True)
        ),
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION refuse_work_for_archived_pool() RETURNS trigger
            LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (
                    SELECT FROM clusters_pool
                    WHERE id = NEW.pool_id AND archived_at IS NOT NULL
                ) THEN
                    RAISE EXCEPTION 'no node of an archived pool takes work'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'node_of_an_archived_pool_takes_no_work';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER node_of_an_archived_pool_takes_no_work
                BEFORE INSERT OR UPDATE OF is_schedulable, pool_id ON clusters_clusternode
                FOR EACH ROW WHEN (NEW.is_schedulable)
                EXECUTE FUNCTION refuse_work_for_archived_pool();
            CREATE FUNCTION archive_no_pool_whose_nodes_take_work() RETURNS trigger
            LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (
                    SELECT FROM clusters_clusternode WHERE pool_id = NEW.id AND is_schedulable
                ) THEN
                    RAISE EXCEPTION 'no node of an archived pool takes work'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'node_of_an_archived_pool_takes_no_work';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER node_of_an_archived_pool_takes_no_work
                BEFORE INSERT OR UPDATE OF archived_at ON clusters_pool
                FOR EACH ROW WHEN (NEW.archived_at IS NOT NULL)
                EXECUTE FUNCTION archive_no_pool_whose_nodes_take_work();
            """,
            reverse_sql="""
            DROP TRIGGER node_of_an_archived_pool_takes_no_work ON clusters_pool;
            DROP FUNCTION archive_no_pool_whose_nodes_take_work();
            DROP TRIGGER node_of_an_archived_pool_takes_no_work ON clusters_clusternode;
            DROP FUNCTION refuse_work_for_archived_pool();
            """,
        ),
    ]
