"""Nothing is submitted by a deactivated user, and nothing of theirs or of an archived team starts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0034_archived_teams_take_no_jobs"),
        ("tenants", "0008_user_deactivated"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state", "queued")), fields=["user"], name="job_queued_by_user"
            ),
        ),
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION refuse_job_of_deactivated_user() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                -- Waits for whoever deactivates the user at this moment.
                PERFORM FROM tenants_user WHERE id = NEW.user_id AND is_active FOR SHARE;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'a deactivated user submits no jobs'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'job_is_of_a_user_who_is_active';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER job_is_of_a_user_who_is_active
                BEFORE INSERT ON jobs_job
                FOR EACH ROW WHEN (NEW.origin <> 'native')
                EXECUTE FUNCTION refuse_job_of_deactivated_user();
            -- Reserved is what the arbiter has granted and no cluster knows yet.
            CREATE FUNCTION refuse_starts_of_what_is_withheld() RETURNS trigger
            LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (
                    SELECT FROM added a
                    JOIN jobs_job j ON j.id = a.job_id
                    JOIN tenants_node n ON n.id = j.team_id
                    JOIN tenants_user u ON u.id = j.user_id
                    WHERE a.state = 'reserved'
                        AND (n.archived_at IS NOT NULL OR NOT u.is_active)
                ) THEN
                    RAISE EXCEPTION 'nothing of an archived team or a deactivated user starts'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'attempt_is_of_what_may_start';
                END IF;
                RETURN NULL;
            END $$;
            CREATE TRIGGER attempt_is_of_what_may_start
                AFTER INSERT ON jobs_attempt REFERENCING NEW TABLE AS added
                FOR EACH STATEMENT EXECUTE FUNCTION refuse_starts_of_what_is_withheld();
            """,
            reverse_sql="""
            DROP TRIGGER attempt_is_of_what_may_start ON jobs_attempt;
            DROP FUNCTION refuse_starts_of_what_is_withheld();
            DROP TRIGGER job_is_of_a_user_who_is_active ON jobs_job;
            DROP FUNCTION refuse_job_of_deactivated_user();
            """,
        ),
    ]
