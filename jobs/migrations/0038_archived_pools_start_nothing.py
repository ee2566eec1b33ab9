"""No job is submitted into an archived pool, and nothing starts in one."""

from django.db import migrations, models

_STARTS = """
CREATE OR REPLACE FUNCTION refuse_starts_of_what_is_withheld() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM added a
        JOIN jobs_job j ON j.id = a.job_id
        JOIN tenants_node n ON n.id = j.team_id
        JOIN tenants_user u ON u.id = j.user_id
        JOIN clusters_cluster c ON c.id = a.cluster_id
        {join}
        WHERE a.state = 'reserved'
            AND (n.archived_at IS NOT NULL OR NOT u.is_active OR c.archived_at IS NOT NULL {either})
    ) THEN
        RAISE EXCEPTION 'nothing that is archived or of a deactivated user starts'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'attempt_is_of_what_may_start';
    END IF;
    RETURN NULL;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0037_recent_ends_by_reader"),
        ("clusters", "0013_pools_are_archived"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state", "queued")), fields=["pool"], name="job_queued_by_pool"
            ),
        ),
        migrations.RunSQL(
            sql=_STARTS.format(
                join="JOIN clusters_pool p ON p.id = j.pool_id",
                either="OR p.archived_at IS NOT NULL",
            ),
            reverse_sql=_STARTS.format(join="", either=""),
        ),
        migrations.RunSQL(
            sql="""
            -- Without a lock: a job that was submitted at this moment waits and says why.
            CREATE FUNCTION refuse_job_of_archived_pool() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (
                    SELECT FROM clusters_pool
                    WHERE (id = NEW.pool_id OR id = ANY (NEW.pools)) AND archived_at IS NOT NULL
                ) THEN
                    RAISE EXCEPTION 'an archived pool takes no jobs'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'job_is_for_pools_that_are_not_archived';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER job_is_for_pools_that_are_not_archived
                BEFORE INSERT ON jobs_job
                FOR EACH ROW WHEN (NEW.origin <> 'native')
                EXECUTE FUNCTION refuse_job_of_archived_pool();
            """,
            reverse_sql="""
            DROP TRIGGER job_is_for_pools_that_are_not_archived ON jobs_job;
            DROP FUNCTION refuse_job_of_archived_pool();
            """,
        ),
    ]
