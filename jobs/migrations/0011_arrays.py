"""Job arrays, and jobs that wait for one."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0004_nodes_are_asked"),
        ("jobs", "0010_features_and_image"),
        ("quotas", "0004_quota_pushes"),
        ("tenants", "0003_sessions_end_and_attempts_count"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="array_index",
            field=models.IntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="dependency",
            name="predecessor",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="jobs.job",
            ),
        ),
        migrations.CreateModel(
            name="JobArray",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("indices", models.TextField()),
                ("size", models.IntegerField()),
                ("first_index", models.IntegerField()),
                ("last_index", models.IntegerField()),
                ("max_running", models.IntegerField(null=True)),
                ("submitted_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="dependency",
            name="array",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="jobs.jobarray",
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="array",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="tasks",
                to="jobs.jobarray",
            ),
        ),
        migrations.AddIndex(
            model_name="dependency",
            index=models.Index(
                condition=models.Q(("array__isnull", False), ("closed_at", None)),
                fields=["array"],
                name="dependency_open_on_array",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    ("array__isnull", False),
                    ("state__in", ["held", "queued", "starting", "running", "preempting"]),
                ),
                fields=["array", "id"],
                name="job_open_of_array",
            ),
        ),
        migrations.AddConstraint(
            model_name="dependency",
            constraint=models.UniqueConstraint(
                condition=models.Q(("array__isnull", False)),
                fields=("job", "array"),
                name="dependency_array_named_once_per_job",
            ),
        ),
        migrations.AddConstraint(
            model_name="dependency",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("array__isnull", False), ("predecessor", None)),
                    models.Q(("array", None), ("predecessor__isnull", False)),
                    _connector="OR",
                ),
                name="dependency_is_on_a_job_or_an_array",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                condition=models.Q(("array__isnull", False)),
                fields=("array", "array_index"),
                name="job_is_one_task_of_its_array",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("array", None), ("array_index", None)),
                    models.Q(
                        ("array__isnull", False),
                        ("array_index__gte", 0),
                        ("array_index__isnull", False),
                        ("type", "array"),
                    ),
                    _connector="OR",
                ),
                name="job_of_an_array_has_an_index",
            ),
        ),
        migrations.AddConstraint(
            model_name="jobarray",
            constraint=models.CheckConstraint(
                condition=models.Q(("size__gte", 1), ("size__lte", 1000)), name="array_has_tasks"
            ),
        ),
        migrations.AddConstraint(
            model_name="jobarray",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("first_index__gte", 0),
                    ("first_index__lte", models.F("last_index")),
                    ("last_index__lte", 1000000),
                ),
                name="array_indices_are_in_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="jobarray",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_running", None), ("max_running__gte", 1), _connector="OR"),
                name="array_lets_a_task_run",
            ),
        ),
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION keep_job_with_its_array() RETURNS trigger
            LANGUAGE plpgsql AS $$
            DECLARE whole jobs_jobarray;
            BEGIN
                SELECT * INTO whole FROM jobs_jobarray WHERE id = NEW.array_id;
                IF (whole.organization_id, whole.team_id, whole.user_id)
                        <> (NEW.organization_id, NEW.team_id, NEW.user_id)
                        OR NEW.array_index NOT BETWEEN whole.first_index AND whole.last_index THEN
                    RAISE EXCEPTION 'the tasks of an array are of its team, its user and its range'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'job_stays_with_its_array';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER job_stays_with_its_array
                BEFORE INSERT OR UPDATE OF array_id, array_index, team_id, organization_id, user_id
                ON jobs_job FOR EACH ROW WHEN (NEW.array_id IS NOT NULL)
                EXECUTE FUNCTION keep_job_with_its_array();
            CREATE OR REPLACE FUNCTION keep_dependency_in_one_organization() RETURNS trigger
            LANGUAGE plpgsql AS $$
            BEGIN
                IF (SELECT organization_id FROM jobs_job WHERE id = NEW.job_id)
                        <> coalesce(
                            (SELECT organization_id FROM jobs_job WHERE id = NEW.predecessor_id),
                            (SELECT organization_id FROM jobs_jobarray WHERE id = NEW.array_id)
                        ) THEN
                    RAISE EXCEPTION 'a job waits for jobs of its own organization only'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'dependency_stays_in_one_organization';
                END IF;
                RETURN NEW;
            END $$;
            """,
            reverse_sql="""
            CREATE OR REPLACE FUNCTION keep_dependency_in_one_organization() RETURNS trigger
            LANGUAGE plpgsql AS $$
            BEGIN
                IF (SELECT organization_id FROM jobs_job WHERE id = NEW.job_id)
                        <> (SELECT organization_id FROM jobs_job WHERE id = NEW.predecessor_id) THEN
                    RAISE EXCEPTION 'a job waits for jobs of its own organization only'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'dependency_stays_in_one_organization';
                END IF;
                RETURN NEW;
            END $$;
            DROP TRIGGER job_stays_with_its_array ON jobs_job;
            DROP FUNCTION keep_job_with_its_array();
            """,
        ),
    ]
