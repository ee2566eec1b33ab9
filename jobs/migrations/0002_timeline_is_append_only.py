"""A job's timeline is never rewritten, and a job runs in a team of its own organization."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0001_initial"),
        ("audit", "0002_history_is_append_only"),
    ]

    operations = [
        migrations.RunSQL(
            sql="""
            CREATE TRIGGER job_event_is_append_only
                BEFORE UPDATE OR DELETE ON jobs_jobevent
                FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
            CREATE FUNCTION keep_job_in_its_organization() RETURNS trigger
            LANGUAGE plpgsql AS $$
            DECLARE team tenants_node; class_of uuid;
            BEGIN
                SELECT * INTO team FROM tenants_node WHERE id = NEW.team_id;
                SELECT organization_id INTO class_of FROM quotas_priorityclass
                    WHERE id = NEW.priority_class_id;
                IF team.kind <> 'team' OR team.organization_id <> NEW.organization_id
                        OR class_of <> NEW.organization_id THEN
                    RAISE EXCEPTION 'a job, its team and its class belong to one organization'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'job_stays_in_its_organization';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER job_stays_in_its_organization
                BEFORE INSERT OR UPDATE OF team_id, organization_id, priority_class_id ON jobs_job
                FOR EACH ROW EXECUTE FUNCTION keep_job_in_its_organization();
            """,
            reverse_sql="""
            DROP TRIGGER job_stays_in_its_organization ON jobs_job;
            DROP FUNCTION keep_job_in_its_organization();
            DROP TRIGGER job_event_is_append_only ON jobs_jobevent;
            """,
        ),
    ]
