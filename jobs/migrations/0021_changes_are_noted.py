"""What changed of a job since the arbiter's leader read it last."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0019_index_of_what_begins_later")]

    operations = [
        migrations.CreateModel(
            name="Change",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("transaction", models.BigIntegerField()),
                ("job_id", models.UUIDField()),
            ],
            options={
                "indexes": [models.Index(fields=["transaction"], name="change_by_transaction")],
            },
        ),
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION note_changed_job() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO jobs_change (transaction, job_id) VALUES (
                    pg_current_xact_id()::text::bigint, coalesce(NEW.id, OLD.id));
                RETURN NULL;
            END $$;
            CREATE FUNCTION note_changed_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO jobs_change (transaction, job_id) VALUES (
                    pg_current_xact_id()::text::bigint, coalesce(NEW.job_id, OLD.job_id));
                RETURN NULL;
            END $$;
            -- For whom an attempt is stopped stands in its reclaim.
            CREATE FUNCTION note_changed_reclaim() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO jobs_change (transaction, job_id)
                SELECT DISTINCT pg_current_xact_id()::text::bigint, job_id FROM jobs_attempt
                WHERE reclaim_id = NEW.id AND released_at IS NULL;
                RETURN NULL;
            END $$;
            -- Those columns are named that `jobs.snapshots` reads.
            CREATE TRIGGER changed_job_is_noted
                AFTER INSERT OR DELETE OR UPDATE OF
                    state, team_id, user_id, pool_id, priority_class_id, cluster_id,
                    mgpu_per_node, node_count, node_count_min, features, image,
                    required_topology, preferred_topology, time_limit_s, is_preemptible,
                    submitted_at
                ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION note_changed_job();
            CREATE TRIGGER changed_attempt_is_noted
                AFTER INSERT OR DELETE OR UPDATE OF
                    job_id, number, cluster_id, slots, guaranteed_mgpu, state, granted_at,
                    started_at, checkpoint_at, reclaim_id, grace_until, ended_at, released_at
                ON jobs_attempt
                FOR EACH ROW EXECUTE FUNCTION note_changed_attempt();
            CREATE TRIGGER changed_reclaim_is_noted
                AFTER UPDATE OF job_id, closed_at ON jobs_reclaim
                FOR EACH ROW EXECUTE FUNCTION note_changed_reclaim();
            """,
            reverse_sql="""
            DROP TRIGGER changed_reclaim_is_noted ON jobs_reclaim;
            DROP TRIGGER changed_attempt_is_noted ON jobs_attempt;
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            DROP FUNCTION note_changed_reclaim();
            DROP FUNCTION note_changed_attempt();
            DROP FUNCTION note_changed_job();
            """,
        ),
    ]
