"""A start writes fewer indexes, and is noted once; what changes of use is noted."""

from typing import Any

from django.db import migrations, models
from django.db.models import PROTECT, Q


def _reference(to: str, related_name: str, **options: Any) -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(
        on_delete=PROTECT, related_name=related_name, to=to, db_index=False, **options
    )


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0025_changes_of_nodes_are_noted"),
        ("billing", "0009_attempts_are_found_by_team"),
    ]

    operations = [
        migrations.AlterField(
            model_name="job", name="pool", field=_reference("clusters.pool", "jobs")
        ),
        migrations.AlterField(
            model_name="job",
            name="cluster",
            field=_reference("clusters.cluster", "pinned_jobs", null=True),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="reclaim",
            field=_reference("jobs.reclaim", "victims", null=True),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                fields=["reclaim"], name="attempt_taken_back", condition=Q(reclaim__isnull=False)
            ),
        ),
        migrations.RunSQL(
            # Those columns are named that `jobs.snapshots` reads. A job's next attempt is
            # inserted in the transaction that counts it, and notes the job.
            sql="""
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            CREATE TRIGGER changed_job_is_noted
                AFTER UPDATE OF
                    state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
                    mgpu_per_node, node_count, node_count_min, features, image,
                    required_topology, preferred_topology, cpus_per_node, memory_mib_per_node,
                    time_limit_s, is_preemptible, submitted_at
                ON jobs_job
                FOR EACH ROW WHEN (NEW.attempt_number = OLD.attempt_number)
                EXECUTE FUNCTION note_changed_job();
            -- What everybody used lately is remembered by job too.
            CREATE FUNCTION note_changed_use() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO jobs_change (transaction, job_id)
                SELECT DISTINCT pg_current_xact_id()::text::bigint, a.job_id
                FROM changed c JOIN billing_meteredattempt a ON a.id = c.attempt_id;
                RETURN NULL;
            END $$;
            CREATE TRIGGER new_segments_are_noted
                AFTER INSERT ON billing_usagesegment REFERENCING NEW TABLE AS changed
                FOR EACH STATEMENT EXECUTE FUNCTION note_changed_use();
            CREATE TRIGGER updated_segments_are_noted
                AFTER UPDATE ON billing_usagesegment REFERENCING NEW TABLE AS changed
                FOR EACH STATEMENT EXECUTE FUNCTION note_changed_use();
            CREATE TRIGGER deleted_segments_are_noted
                AFTER DELETE ON billing_usagesegment REFERENCING OLD TABLE AS changed
                FOR EACH STATEMENT EXECUTE FUNCTION note_changed_use();
            CREATE TRIGGER late_use_is_noted
                AFTER INSERT ON billing_lateuse REFERENCING NEW TABLE AS changed
                FOR EACH STATEMENT EXECUTE FUNCTION note_changed_use();
            """,
            reverse_sql="""
            DROP TRIGGER late_use_is_noted ON billing_lateuse;
            DROP TRIGGER deleted_segments_are_noted ON billing_usagesegment;
            DROP TRIGGER updated_segments_are_noted ON billing_usagesegment;
            DROP TRIGGER new_segments_are_noted ON billing_usagesegment;
            DROP FUNCTION note_changed_use();
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            CREATE TRIGGER changed_job_is_noted
                AFTER UPDATE OF
                    state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
                    mgpu_per_node, node_count, node_count_min, features, image,
                    required_topology, preferred_topology, cpus_per_node, memory_mib_per_node,
                    time_limit_s, is_preemptible, submitted_at
                ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION note_changed_job();
            """,
        ),
    ]
