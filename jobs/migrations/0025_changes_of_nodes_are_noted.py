"""That nodes changed is noted too, and new and deleted jobs and attempts once per statement."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0024_decisions_are_listed"),
        ("clusters", "0009_nodes_have_cpu_and_memory"),
    ]

    operations = [
        migrations.AlterField(
            model_name="change",
            name="job_id",
            field=models.UUIDField(null=True),
        ),
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION note_changed_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO jobs_change (transaction, job_id)
                SELECT pg_current_xact_id()::text::bigint, id FROM changed;
                RETURN NULL;
            END $$;
            CREATE FUNCTION note_changed_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO jobs_change (transaction, job_id)
                SELECT DISTINCT pg_current_xact_id()::text::bigint, job_id FROM changed;
                RETURN NULL;
            END $$;
            CREATE TRIGGER new_jobs_are_noted
                AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
                FOR EACH STATEMENT EXECUTE FUNCTION note_changed_jobs();
            CREATE TRIGGER deleted_jobs_are_noted
                AFTER DELETE ON jobs_job REFERENCING OLD TABLE AS changed
                FOR EACH STATEMENT EXECUTE FUNCTION note_changed_jobs();
            CREATE TRIGGER new_attempts_are_noted
                AFTER INSERT ON jobs_attempt REFERENCING NEW TABLE AS changed
                FOR EACH STATEMENT EXECUTE FUNCTION note_changed_attempts();
            CREATE TRIGGER deleted_attempts_are_noted
                AFTER DELETE ON jobs_attempt REFERENCING OLD TABLE AS changed
                FOR EACH STATEMENT EXECUTE FUNCTION note_changed_attempts();
            -- With columns named there are no transition tables, so updates stay with their rows.
            -- Those columns are named that `jobs.snapshots` reads.
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            CREATE TRIGGER changed_job_is_noted
                AFTER UPDATE OF
                    state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
                    mgpu_per_node, node_count, node_count_min, features, image,
                    required_topology, preferred_topology, cpus_per_node, memory_mib_per_node,
                    time_limit_s, is_preemptible, submitted_at
                ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION note_changed_job();
            DROP TRIGGER changed_attempt_is_noted ON jobs_attempt;
            CREATE TRIGGER changed_attempt_is_noted
                AFTER UPDATE OF
                    job_id, number, cluster_id, slots, guaranteed_mgpu, state, granted_at,
                    started_at, checkpoint_at, reclaim_id, grace_until, ended_at, released_at
                ON jobs_attempt
                FOR EACH ROW EXECUTE FUNCTION note_changed_attempt();
            CREATE FUNCTION note_changed_nodes() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO jobs_change (transaction) VALUES (pg_current_xact_id()::text::bigint);
                RETURN NULL;
            END $$;
            -- Those columns are named that `clusters.queries.read_fleet` reads.
            CREATE TRIGGER changed_nodes_are_noted
                AFTER INSERT OR DELETE OR UPDATE OF
                    cluster_id, name, pool_id, capacity_mgpu, outside_mgpu, is_schedulable, state,
                    features, domains, cpu_milli, memory_mib, cpu_milli_per_gpu,
                    memory_mib_per_gpu
                ON clusters_clusternode
                FOR EACH STATEMENT EXECUTE FUNCTION note_changed_nodes();
            """,
            reverse_sql="""
            DROP TRIGGER changed_nodes_are_noted ON clusters_clusternode;
            DROP FUNCTION note_changed_nodes();
            DROP TRIGGER changed_attempt_is_noted ON jobs_attempt;
            CREATE TRIGGER changed_attempt_is_noted
                AFTER INSERT OR DELETE OR UPDATE OF
                    job_id, number, cluster_id, slots, guaranteed_mgpu, state, granted_at,
                    started_at, checkpoint_at, reclaim_id, grace_until, ended_at, released_at
                ON jobs_attempt
                FOR EACH ROW EXECUTE FUNCTION note_changed_attempt();
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            CREATE TRIGGER changed_job_is_noted
                AFTER INSERT OR DELETE OR UPDATE OF
                    state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
                    mgpu_per_node, node_count, node_count_min, features, image,
                    required_topology, preferred_topology, cpus_per_node, memory_mib_per_node,
                    time_limit_s, is_preemptible, submitted_at
                ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION note_changed_job();
            DROP TRIGGER deleted_attempts_are_noted ON jobs_attempt;
            DROP TRIGGER new_attempts_are_noted ON jobs_attempt;
            DROP TRIGGER deleted_jobs_are_noted ON jobs_job;
            DROP TRIGGER new_jobs_are_noted ON jobs_job;
            DROP FUNCTION note_changed_attempts();
            DROP FUNCTION note_changed_jobs();
            DELETE FROM jobs_change WHERE job_id IS NULL;
            """,
        ),
    ]
