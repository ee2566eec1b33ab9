"""A batch job runs its script once, on its first node, and says what its tasks are."""

import django.contrib.postgres.fields
from django.db import migrations, models

#: The arbiter reads how a job is launched.
NOTED = """
DROP TRIGGER changed_job_is_noted ON jobs_job;
CREATE TRIGGER changed_job_is_noted
    AFTER UPDATE OF launch, state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
        mgpu_per_node, node_count, node_count_min, features, image, required_topology,
        preferred_topology, cpus_per_node, memory_mib_per_node, time_limit_s, is_preemptible,
        submitted_at ON jobs_job
    FOR EACH ROW WHEN ((new.attempt_number = old.attempt_number))
    EXECUTE FUNCTION note_changed_job();
"""
NOTED_BEFORE = """
DROP TRIGGER changed_job_is_noted ON jobs_job;
CREATE TRIGGER changed_job_is_noted
    AFTER UPDATE OF state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
        mgpu_per_node, node_count, node_count_min, features, image, required_topology,
        preferred_topology, cpus_per_node, memory_mib_per_node, time_limit_s, is_preemptible,
        submitted_at ON jobs_job
    FOR EACH ROW WHEN ((new.attempt_number = old.attempt_number))
    EXECUTE FUNCTION note_changed_job();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_checkpoints_before_the_start_is_observed")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="arguments",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(), default=list, size=None
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="cpus_per_task",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="gpus_per_task",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="launch",
            field=models.CharField(
                choices=[("batch", "Batch"), ("per_node", "Per Node")],
                default="per_node",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="ntasks",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="ntasks_per_node",
            field=models.IntegerField(null=True),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("launch__in", ["batch", "per_node"])),
                name="job_launch_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("launch", "batch"),
                    models.Q(
                        ("cpus_per_task", None),
                        ("gpus_per_task", None),
                        ("ntasks", None),
                        ("ntasks_per_node", None),
                    ),
                    _connector="OR",
                ),
                name="job_has_tasks_if_it_is_a_batch_job",
            ),
        ),
        migrations.RunSQL(NOTED, NOTED_BEFORE),
    ]
