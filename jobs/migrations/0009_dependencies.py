"""Jobs that wait for other jobs of their organization."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0008_names_are_searched"),
    ]

    operations = [
        migrations.CreateModel(
            name="Dependency",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "condition",
                    models.CharField(
                        choices=[
                            ("succeeded", "Succeeded"),
                            ("ended", "Ended"),
                            ("failed", "Failed"),
                        ],
                        max_length=9,
                    ),
                ),
                ("closed_at", models.DateTimeField(null=True)),
                ("is_met", models.BooleanField(default=False)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="dependencies",
                        to="jobs.job",
                    ),
                ),
                (
                    "predecessor",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("closed_at", None)),
                        fields=["job"],
                        name="dependency_open",
                    ),
                    models.Index(
                        condition=models.Q(("closed_at", None)),
                        fields=["predecessor"],
                        name="dependency_open_on",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job", "predecessor"), name="dependency_named_once_per_job"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("job", models.F("predecessor")), _negated=True),
                        name="dependency_is_on_another_job",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("condition__in", ["succeeded", "ended", "failed"])),
                        name="dependency_condition_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("is_met", False), ("closed_at__isnull", False), _connector="OR"
                        ),
                        name="dependency_is_met_when_closed",
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION keep_dependency_in_one_organization() RETURNS trigger
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
            CREATE TRIGGER dependency_stays_in_one_organization
                BEFORE INSERT OR UPDATE OF job_id, predecessor_id ON jobs_dependency
                FOR EACH ROW EXECUTE FUNCTION keep_dependency_in_one_organization();
            """,
            reverse_sql="""
            DROP TRIGGER dependency_stays_in_one_organization ON jobs_dependency;
            DROP FUNCTION keep_dependency_in_one_organization();
            """,
        ),
    ]
