"""Jobs may say how many CPUs and how much memory they want of each node."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0022_several_pools")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="cpus_per_node",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="memory_mib_per_node",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(cpus_per_node=None) | Q(cpus_per_node__gte=1, cpus_per_node__lte=65536),
                name="job_asks_for_some_cpus_or_leaves_them",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(memory_mib_per_node=None)
                | Q(memory_mib_per_node__gte=1, memory_mib_per_node__lte=1073741824),
                name="job_asks_for_some_memory_or_leaves_it",
            ),
        ),
        # Those columns are named that `jobs.snapshots` reads.
        migrations.RunSQL(
            sql="""
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            CREATE TRIGGER changed_job_is_noted
                AFTER INSERT OR DELETE OR UPDATE OF
                    state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
                    mgpu_per_node, node_count, node_count_min, features, image,
                    required_topology, preferred_topology, cpus_per_node, memory_mib_per_node,
                    time_limit_s, is_preemptible, submitted_at
                ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION note_changed_job();
            """,
            reverse_sql="""
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            CREATE TRIGGER changed_job_is_noted
                AFTER INSERT OR DELETE OR UPDATE OF
                    state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
                    mgpu_per_node, node_count, node_count_min, features, image,
                    required_topology, preferred_topology, time_limit_s, is_preemptible,
                    submitted_at
                ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION note_changed_job();
            """,
        ),
    ]
