"""A start writes fewer indexes, and is noted once."""

from typing import Any

from django.db import migrations, models
from django.db.models import PROTECT, Q

_COLUMNS = """
    state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
    mgpu_per_node, node_count, node_count_min, features, image,
    required_topology, preferred_topology, cpus_per_node, memory_mib_per_node,
    time_limit_s, is_preemptible, submitted_at
"""


def _reference(to: str, related_name: str, **options: Any) -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(
        on_delete=PROTECT, related_name=related_name, to=to, db_index=False, **options
    )


class Migration(migrations.Migration):
    dependencies = [("jobs", "0025_changes_of_nodes_are_noted")]

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
            sql=f"""
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            CREATE TRIGGER changed_job_is_noted
                AFTER UPDATE OF {_COLUMNS} ON jobs_job
                FOR EACH ROW WHEN (NEW.attempt_number = OLD.attempt_number)
                EXECUTE FUNCTION note_changed_job();
            """,
            reverse_sql=f"""
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            CREATE TRIGGER changed_job_is_noted
                AFTER UPDATE OF {_COLUMNS} ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION note_changed_job();
            """,
        ),
    ]
