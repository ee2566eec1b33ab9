"""Jobs accept several pools, in order of preference."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0021_changes_are_noted")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="pools",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(), default=list, size=None
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(pools__len=0) | Q(pools__len__gte=2, pools__len__lte=4),
                name="job_accepts_a_few_pools_or_one",
            ),
        ),
        migrations.AddField(
            model_name="reclaim",
            name="pool",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="clusters.pool",
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
                    required_topology, preferred_topology, time_limit_s, is_preemptible,
                    submitted_at
                ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION note_changed_job();
            """,
            reverse_sql="""
            DROP TRIGGER changed_job_is_noted ON jobs_job;
            CREATE TRIGGER changed_job_is_noted
                AFTER INSERT OR DELETE OR UPDATE OF
                    state, team_id, user_id, pool_id, priority_class_id, cluster_id,
                    mgpu_per_node, node_count, node_count_min, features, image,
                    required_topology, preferred_topology, time_limit_s, is_preemptible,
                    submitted_at
                ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION note_changed_job();
            """,
        ),
    ]
