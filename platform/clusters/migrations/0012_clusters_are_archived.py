"""Clusters are archived; no node of an archived one takes work or counts as capacity."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0011_jobs_are_isolated")]

    operations = [
        migrations.AddField(
            model_name="cluster", name="archived_at", field=models.DateTimeField(null=True)
        ),
        migrations.AddConstraint(
            model_name="cluster",
            constraint=models.CheckConstraint(
                condition=models.Q(("archived_at", None), ("is_enabled", False), _connector="OR"),
                name="cluster_that_is_archived_is_disabled",
            ),
        ),
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION refuse_work_for_archived_cluster() RETURNS trigger
            LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (
                    SELECT FROM clusters_cluster
                    WHERE id = NEW.cluster_id AND archived_at IS NOT NULL
                ) THEN
                    RAISE EXCEPTION 'no node of an archived cluster takes work'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'node_of_an_archived_cluster_takes_no_work';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER node_of_an_archived_cluster_takes_no_work
                BEFORE INSERT OR UPDATE OF is_schedulable, cluster_id ON clusters_clusternode
                FOR EACH ROW WHEN (NEW.is_schedulable)
                EXECUTE FUNCTION refuse_work_for_archived_cluster();
            CREATE FUNCTION archive_no_cluster_whose_nodes_take_work() RETURNS trigger
            LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (
                    SELECT FROM clusters_clusternode WHERE cluster_id = NEW.id AND is_schedulable
                ) THEN
                    RAISE EXCEPTION 'no node of an archived cluster takes work'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'node_of_an_archived_cluster_takes_no_work';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER node_of_an_archived_cluster_takes_no_work
                BEFORE INSERT OR UPDATE OF archived_at ON clusters_cluster
                FOR EACH ROW WHEN (NEW.archived_at IS NOT NULL)
                EXECUTE FUNCTION archive_no_cluster_whose_nodes_take_work();
            """,
            reverse_sql="""
            DROP TRIGGER node_of_an_archived_cluster_takes_no_work ON clusters_cluster;
            DROP FUNCTION archive_no_cluster_whose_nodes_take_work();
            DROP TRIGGER node_of_an_archived_cluster_takes_no_work ON clusters_clusternode;
            DROP FUNCTION refuse_work_for_archived_cluster();
            """,
        ),
    ]
