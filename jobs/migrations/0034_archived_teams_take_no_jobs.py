"""No job is submitted to an archived team; what a cluster has by itself is still taken in."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobs", "0033_held_submissions"), ("tenants", "0006_nodes_are_archived")]

    operations = [
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION refuse_job_of_archived_team() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                -- Waits for whoever archives the team at this moment.
                PERFORM FROM tenants_node
                    WHERE id = NEW.team_id AND archived_at IS NULL FOR SHARE;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'an archived team takes no jobs'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'job_is_of_a_team_that_is_not_archived';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER job_is_of_a_team_that_is_not_archived
                BEFORE INSERT ON jobs_job
                FOR EACH ROW WHEN (NEW.origin <> 'native')
                EXECUTE FUNCTION refuse_job_of_archived_team();
            """,
            reverse_sql="""
            DROP TRIGGER job_is_of_a_team_that_is_not_archived ON jobs_job;
            DROP FUNCTION refuse_job_of_archived_team();
            """,
        ),
    ]
