"""Jobs, attempts, their timelines, recorded cycles and the loops' leadership."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.text
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
-- Why a job waits is rewritten many times. Room on its page keeps the indexes as they are.
ALTER TABLE jobs_job SET (fillfactor = 70);
-- Bodies of recorded cycles are compressed already.
ALTER TABLE jobs_cycle ALTER COLUMN body SET STORAGE EXTERNAL;

-- A job waits for jobs and arrays of its own organization only.
CREATE FUNCTION keep_dependency_in_one_organization() RETURNS trigger LANGUAGE plpgsql AS $$
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
END
$$;
CREATE TRIGGER dependency_stays_in_one_organization
    BEFORE INSERT OR UPDATE OF job_id, predecessor_id ON jobs_dependency
    FOR EACH ROW
    EXECUTE FUNCTION keep_dependency_in_one_organization();

-- A job runs in a team, and in a priority class, of its own organization.
CREATE FUNCTION keep_job_in_its_organization() RETURNS trigger LANGUAGE plpgsql AS $$
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
END
$$;
CREATE TRIGGER job_stays_in_its_organization
    BEFORE INSERT OR UPDATE OF team_id, organization_id, priority_class_id ON jobs_job
    FOR EACH ROW
    EXECUTE FUNCTION keep_job_in_its_organization();

-- The tasks of an array share its team, organization and user.
CREATE FUNCTION keep_job_with_its_array() RETURNS trigger LANGUAGE plpgsql AS $$
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
END
$$;
CREATE TRIGGER job_stays_with_its_array
    BEFORE INSERT OR UPDATE OF array_id, array_index, team_id, organization_id,
        user_id ON jobs_job
    FOR EACH ROW WHEN ((new.array_id IS NOT NULL))
    EXECUTE FUNCTION keep_job_with_its_array();

-- Note a changed attempt for the arbiter's leader.
CREATE FUNCTION note_changed_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_change (transaction, job_id) VALUES (
        pg_current_xact_id()::text::bigint, coalesce(NEW.job_id, OLD.job_id));
    RETURN NULL;
END
$$;
CREATE TRIGGER changed_attempt_is_noted
    AFTER UPDATE OF job_id, number, cluster_id, slots, guaranteed_mgpu, state, granted_at,
        started_at, checkpoint_at, reclaim_id, grace_until, ended_at,
        released_at ON jobs_attempt
    FOR EACH ROW
    EXECUTE FUNCTION note_changed_attempt();

-- Note new and deleted attempts, once per statement.
CREATE FUNCTION note_changed_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_change (transaction, job_id)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, job_id FROM changed;
    RETURN NULL;
END
$$;
CREATE TRIGGER deleted_attempts_are_noted
    AFTER DELETE ON jobs_attempt
    REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_attempts();
CREATE TRIGGER new_attempts_are_noted
    AFTER INSERT ON jobs_attempt
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_attempts();

-- Note a changed job for the arbiter's leader.
CREATE FUNCTION note_changed_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_change (transaction, job_id) VALUES (
        pg_current_xact_id()::text::bigint, coalesce(NEW.id, OLD.id));
    RETURN NULL;
END
$$;
CREATE TRIGGER changed_job_is_noted
    AFTER UPDATE OF state, team_id, user_id, pool_id, pools, priority_class_id, cluster_id,
        mgpu_per_node, node_count, node_count_min, features, image, required_topology,
        preferred_topology, cpus_per_node, memory_mib_per_node, time_limit_s, is_preemptible,
        submitted_at ON jobs_job
    FOR EACH ROW WHEN ((new.attempt_number = old.attempt_number))
    EXECUTE FUNCTION note_changed_job();

-- Note new and deleted jobs, once per statement.
CREATE FUNCTION note_changed_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_change (transaction, job_id)
    SELECT pg_current_xact_id()::text::bigint, id FROM changed;
    RETURN NULL;
END
$$;
CREATE TRIGGER deleted_jobs_are_noted
    AFTER DELETE ON jobs_job
    REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_jobs();
CREATE TRIGGER new_jobs_are_noted
    AFTER INSERT ON jobs_job
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_jobs();

-- Note that nodes of clusters changed.
CREATE FUNCTION note_changed_nodes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_change (transaction) VALUES (pg_current_xact_id()::text::bigint);
    RETURN NULL;
END
$$;
CREATE TRIGGER changed_nodes_are_noted
    AFTER INSERT OR DELETE OR UPDATE OF cluster_id, name, pool_id, capacity_mgpu, outside_mgpu,
        is_schedulable, state, features, domains, cpu_milli, memory_mib, cpu_milli_per_gpu,
        memory_mib_per_gpu ON clusters_clusternode
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_nodes();

-- Note that the tree, quotas, classes or policies changed.
CREATE FUNCTION note_changed_quotas() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_change (transaction) VALUES (pg_current_xact_id()::text::bigint);
    RETURN NULL;
END
$$;
CREATE TRIGGER changed_quotas_are_noted
    AFTER INSERT OR DELETE OR UPDATE ON quotas_organizationpolicy
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_quotas();
CREATE TRIGGER changed_quotas_are_noted
    AFTER INSERT OR DELETE OR UPDATE ON quotas_priorityclass
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_quotas();
CREATE TRIGGER changed_quotas_are_noted
    AFTER INSERT OR DELETE OR UPDATE ON quotas_quota
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_quotas();
CREATE TRIGGER changed_quotas_are_noted
    AFTER INSERT OR DELETE OR UPDATE ON tenants_node
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_quotas();

-- Note a changed reclaim.
CREATE FUNCTION note_changed_reclaim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_change (transaction, job_id)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, job_id FROM jobs_attempt
    WHERE reclaim_id = NEW.id AND released_at IS NULL;
    RETURN NULL;
END
$$;
CREATE TRIGGER changed_reclaim_is_noted
    AFTER UPDATE OF job_id, closed_at ON jobs_reclaim
    FOR EACH ROW
    EXECUTE FUNCTION note_changed_reclaim();

-- Note jobs whose recent use changed.
CREATE FUNCTION note_changed_use() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_change (transaction, job_id)
    SELECT DISTINCT pg_current_xact_id()::text::bigint, a.job_id
    FROM changed c JOIN billing_meteredattempt a ON a.id = c.attempt_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER late_use_is_noted
    AFTER INSERT ON billing_lateuse
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_use();
CREATE TRIGGER deleted_segments_are_noted
    AFTER DELETE ON billing_usagesegment
    REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_use();
CREATE TRIGGER new_segments_are_noted
    AFTER INSERT ON billing_usagesegment
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_use();
CREATE TRIGGER updated_segments_are_noted
    AFTER UPDATE ON billing_usagesegment
    REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT
    EXECUTE FUNCTION note_changed_use();

-- The last known checkpoint of an attempt never goes back.
CREATE FUNCTION refuse_a_checkpoint_that_goes_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was saved stays saved'
        USING ERRCODE = 'integrity_constraint_violation',
              CONSTRAINT = 'checkpoints_never_go_back';
END
$$;
CREATE TRIGGER checkpoints_never_go_back
    BEFORE UPDATE OF checkpoint_at ON jobs_attempt
    FOR EACH ROW WHEN (((old.checkpoint_at IS NOT NULL) AND ((new.checkpoint_at IS NULL) OR (new.checkpoint_at < old.checkpoint_at))))
    EXECUTE FUNCTION refuse_a_checkpoint_that_goes_back();

-- No job is pinned to an archived cluster.
CREATE FUNCTION refuse_job_of_archived_cluster() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM clusters_cluster
        WHERE id = NEW.cluster_id AND archived_at IS NOT NULL
    ) THEN
        RAISE EXCEPTION 'an archived cluster takes no jobs'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'job_is_for_a_cluster_that_is_not_archived';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER job_is_for_a_cluster_that_is_not_archived
    BEFORE INSERT ON jobs_job
    FOR EACH ROW WHEN ((((new.origin)::text <> 'native'::text) AND (new.cluster_id IS NOT NULL)))
    EXECUTE FUNCTION refuse_job_of_archived_cluster();

-- No job is submitted to an archived pool.
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
END
$$;
CREATE TRIGGER job_is_for_pools_that_are_not_archived
    BEFORE INSERT ON jobs_job
    FOR EACH ROW WHEN (((new.origin)::text <> 'native'::text))
    EXECUTE FUNCTION refuse_job_of_archived_pool();

-- No job is submitted to an archived team. Jobs that a cluster already has are taken in.
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
END
$$;
CREATE TRIGGER job_is_of_a_team_that_is_not_archived
    BEFORE INSERT ON jobs_job
    FOR EACH ROW WHEN (((new.origin)::text <> 'native'::text))
    EXECUTE FUNCTION refuse_job_of_archived_team();

-- No job is submitted by a deactivated user.
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
END
$$;
CREATE TRIGGER job_is_of_a_user_who_is_active
    BEFORE INSERT ON jobs_job
    FOR EACH ROW WHEN (((new.origin)::text <> 'native'::text))
    EXECUTE FUNCTION refuse_job_of_deactivated_user();

-- Nothing starts that is archived or of a deactivated user.
CREATE FUNCTION refuse_starts_of_what_is_withheld() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM added a
        JOIN jobs_job j ON j.id = a.job_id
        JOIN tenants_node n ON n.id = j.team_id
        JOIN tenants_user u ON u.id = j.user_id
        JOIN clusters_cluster c ON c.id = a.cluster_id
        JOIN clusters_pool p ON p.id = j.pool_id
        WHERE a.state = 'reserved'
            AND (n.archived_at IS NOT NULL OR NOT u.is_active OR c.archived_at IS NOT NULL OR p.archived_at IS NOT NULL)
    ) THEN
        RAISE EXCEPTION 'nothing that is archived or of a deactivated user starts'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'attempt_is_of_what_may_start';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER attempt_is_of_what_may_start
    AFTER INSERT ON jobs_attempt
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT
    EXECUTE FUNCTION refuse_starts_of_what_is_withheld();

CREATE TRIGGER job_event_is_append_only
    BEFORE DELETE OR UPDATE ON jobs_jobevent
    FOR EACH ROW
    EXECUTE FUNCTION refuse_to_change_history();
"""

_NO_RULES = """
DROP TRIGGER job_event_is_append_only ON jobs_jobevent;
DROP TRIGGER attempt_is_of_what_may_start ON jobs_attempt;
DROP FUNCTION refuse_starts_of_what_is_withheld();
DROP TRIGGER job_is_of_a_user_who_is_active ON jobs_job;
DROP FUNCTION refuse_job_of_deactivated_user();
DROP TRIGGER job_is_of_a_team_that_is_not_archived ON jobs_job;
DROP FUNCTION refuse_job_of_archived_team();
DROP TRIGGER job_is_for_pools_that_are_not_archived ON jobs_job;
DROP FUNCTION refuse_job_of_archived_pool();
DROP TRIGGER job_is_for_a_cluster_that_is_not_archived ON jobs_job;
DROP FUNCTION refuse_job_of_archived_cluster();
DROP TRIGGER checkpoints_never_go_back ON jobs_attempt;
DROP FUNCTION refuse_a_checkpoint_that_goes_back();
DROP TRIGGER late_use_is_noted ON billing_lateuse;
DROP TRIGGER deleted_segments_are_noted ON billing_usagesegment;
DROP TRIGGER new_segments_are_noted ON billing_usagesegment;
DROP TRIGGER updated_segments_are_noted ON billing_usagesegment;
DROP FUNCTION note_changed_use();
DROP TRIGGER changed_reclaim_is_noted ON jobs_reclaim;
DROP FUNCTION note_changed_reclaim();
DROP TRIGGER changed_quotas_are_noted ON quotas_organizationpolicy;
DROP TRIGGER changed_quotas_are_noted ON quotas_priorityclass;
DROP TRIGGER changed_quotas_are_noted ON quotas_quota;
DROP TRIGGER changed_quotas_are_noted ON tenants_node;
DROP FUNCTION note_changed_quotas();
DROP TRIGGER changed_nodes_are_noted ON clusters_clusternode;
DROP FUNCTION note_changed_nodes();
DROP TRIGGER deleted_jobs_are_noted ON jobs_job;
DROP TRIGGER new_jobs_are_noted ON jobs_job;
DROP FUNCTION note_changed_jobs();
DROP TRIGGER changed_job_is_noted ON jobs_job;
DROP FUNCTION note_changed_job();
DROP TRIGGER deleted_attempts_are_noted ON jobs_attempt;
DROP TRIGGER new_attempts_are_noted ON jobs_attempt;
DROP FUNCTION note_changed_attempts();
DROP TRIGGER changed_attempt_is_noted ON jobs_attempt;
DROP FUNCTION note_changed_attempt();
DROP TRIGGER job_stays_with_its_array ON jobs_job;
DROP FUNCTION keep_job_with_its_array();
DROP TRIGGER job_stays_in_its_organization ON jobs_job;
DROP FUNCTION keep_job_in_its_organization();
DROP TRIGGER dependency_stays_in_one_organization ON jobs_dependency;
DROP FUNCTION keep_dependency_in_one_organization();
ALTER TABLE jobs_cycle ALTER COLUMN body SET STORAGE EXTENDED;
ALTER TABLE jobs_job RESET (fillfactor);
"""


class Migration(migrations.Migration):
    initial = True

    # An installation of the last unreleased version has all of this.
    replaces = [
        ("jobs", "0001_initial"),
        ("jobs", "0002_timeline_is_append_only"),
        ("jobs", "0003_heartbeat_in_a_row_of_its_own"),
        ("jobs", "0004_held_submissions"),
        ("jobs", "0005_room_for_reasons"),
        ("jobs", "0006_native_jobs"),
        ("jobs", "0007_taken_back_unstarted"),
        ("jobs", "0008_names_are_searched"),
        ("jobs", "0009_dependencies"),
        ("jobs", "0010_features_and_image"),
        ("jobs", "0011_arrays"),
        ("jobs", "0012_undecided_dependencies"),
        ("jobs", "0013_natives_that_wait"),
        ("jobs", "0014_cycles_are_kept"),
        ("jobs", "0015_gangs_stay_together"),
        ("jobs", "0016_checkpoints"),
        ("jobs", "0017_reasons_are_kept"),
        ("jobs", "0018_elastic_jobs_and_begin_time"),
        ("jobs", "0019_index_of_what_begins_later"),
        ("jobs", "0021_changes_are_noted"),
        ("jobs", "0022_several_pools"),
        ("jobs", "0023_cpus_and_memory"),
        ("jobs", "0024_decisions_are_listed"),
        ("jobs", "0025_changes_of_nodes_are_noted"),
        ("jobs", "0026_starts_write_less"),
        ("jobs", "0027_no_index_of_priority_classes"),
        ("jobs", "0028_changes_of_quotas_are_noted"),
        ("jobs", "0029_no_index_of_clusters_attempts"),
        ("jobs", "0030_index_of_times_to_begin"),
        ("jobs", "0031_when_leaders_worked"),
        ("jobs", "0032_jobs_by_the_end_of_their_id"),
        ("jobs", "0033_held_submissions"),
        ("jobs", "0034_archived_teams_take_no_jobs"),
        ("jobs", "0035_deactivated_users_start_nothing"),
        ("jobs", "0036_archived_clusters_start_nothing"),
        ("jobs", "0037_recent_ends_by_reader"),
        ("jobs", "0038_archived_pools_start_nothing"),
    ]

    dependencies = [
        ("clusters", "0001_schema"),
        ("quotas", "0001_schema"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("audit", "0001_schema"),
        ("billing", "0001_schema"),
    ]

    operations = [
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS pg_trgm", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("role", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("epoch", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                (
                    "worked_at",
                    models.DateTimeField(
                        help_text="When a leader last did its work: the arbiter, its last whole cycle",
                        null=True,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Leadership",
            fields=[
                ("role", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("epoch", models.BigIntegerField(default=0)),
                ("holder", models.CharField(blank=True, max_length=200)),
                ("backend_pid", models.IntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Change",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("transaction", models.BigIntegerField()),
                ("job_id", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["transaction"], name="change_by_transaction")],
            },
        ),
        migrations.CreateModel(
            name="Cycle",
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
                ("decided_at", models.DateTimeField()),
                ("epoch", models.BigIntegerField()),
                ("version", models.CharField(max_length=40)),
                (
                    "started",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                (
                    "claimed",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                (
                    "stopped",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                (
                    "dropped",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                ("size", models.IntegerField()),
                ("body", models.BinaryField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-decided_at", "-id"], name="cycle_by_time"),
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["started", "claimed", "stopped", "dropped"], name="cycle_by_job"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started__len__gte", 1),
                            ("claimed__len__gte", 1),
                            ("dropped__len__gte", 1),
                            _connector="OR",
                        ),
                        name="cycle_decided_something",
                    )
                ],
            },
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
        migrations.CreateModel(
            name="Job",
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
                (
                    "type",
                    models.CharField(
                        choices=[
                            ("training", "Training"),
                            ("distributed", "Distributed"),
                            ("interactive", "Interactive"),
                            ("inference", "Inference"),
                            ("array", "Array"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "origin",
                    models.CharField(
                        choices=[("portal", "Portal"), ("native", "Native")],
                        default="portal",
                        max_length=6,
                    ),
                ),
                (
                    "pools",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), default=list, size=None
                    ),
                ),
                ("array_index", models.IntegerField(null=True)),
                ("native_id", models.CharField(max_length=200, null=True)),
                ("mgpu_per_node", models.BigIntegerField()),
                ("node_count", models.IntegerField()),
                ("node_count_min", models.IntegerField(null=True)),
                ("script", models.TextField()),
                ("environment", models.JSONField(default=dict)),
                ("notes", models.JSONField(default=list)),
                (
                    "features",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64), default=list, size=None
                    ),
                ),
                ("image", models.CharField(max_length=512, null=True)),
                ("required_topology", models.CharField(max_length=6, null=True)),
                ("preferred_topology", models.CharField(max_length=6, null=True)),
                ("cpus_per_node", models.IntegerField(null=True)),
                ("memory_mib_per_node", models.BigIntegerField(null=True)),
                ("time_limit_s", models.BigIntegerField(null=True)),
                ("notice_signal", models.CharField(default="TERM", max_length=8)),
                ("checkpoint_path", models.CharField(max_length=1024, null=True)),
                ("is_preemptible", models.BooleanField(default=False)),
                ("is_requeueable", models.BooleanField(default=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("held", "Held"),
                            ("queued", "Queued"),
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("preempting", "Preempting"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("timed_out", "Timed Out"),
                        ],
                        max_length=10,
                    ),
                ),
                ("submitted_at", models.DateTimeField()),
                ("begin_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("end_reason", models.CharField(max_length=40, null=True)),
                ("exit_code", models.IntegerField(null=True)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("attempt_number", models.IntegerField(default=0)),
                ("explanation", models.JSONField(null=True)),
                ("explained_at", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="pinned_jobs",
                        to="clusters.cluster",
                    ),
                ),
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
                    "pool",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to="clusters.pool",
                    ),
                ),
                (
                    "priority_class",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to="quotas.priorityclass",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "array",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="jobs.jobarray",
                    ),
                ),
            ],
        ),
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
                ("is_met", models.BooleanField(null=True)),
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
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
                (
                    "array",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="jobs.jobarray",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="JobEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("event", models.CharField(max_length=40)),
                ("detail", models.JSONField(default=dict)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="jobs.job",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="JobReason",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("number", models.IntegerField()),
                ("since", models.DateTimeField()),
                ("code", models.CharField(max_length=40)),
                ("document", models.JSONField()),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reasons",
                        to="jobs.job",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Reclaim",
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
                ("slots", models.JSONField()),
                ("created_at", models.DateTimeField()),
                ("grace_until", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.cluster",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="reclaims",
                        to="jobs.job",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="HeldSubmission",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("number", models.IntegerField()),
                ("cluster_user", models.CharField(max_length=32, null=True)),
                ("native_id", models.CharField(max_length=200, null=True)),
                ("refusal", models.TextField(blank=True)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="held_submissions",
                        to="jobs.job",
                    ),
                ),
                (
                    "reclaim",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="held_submission",
                        to="jobs.reclaim",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
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
                ("number", models.IntegerField()),
                ("slots", models.JSONField()),
                ("mgpu", models.BigIntegerField()),
                ("guaranteed_mgpu", models.BigIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("reserved", "Reserved"),
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("stopping", "Stopping"),
                            ("ended", "Ended"),
                        ],
                        max_length=8,
                    ),
                ),
                ("epoch", models.BigIntegerField()),
                ("granted_at", models.DateTimeField()),
                ("native_id", models.CharField(max_length=200, null=True)),
                ("native_state", models.CharField(blank=True, max_length=100)),
                ("cluster_user", models.CharField(max_length=32, null=True)),
                ("release_sent_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("checkpoint_at", models.DateTimeField(null=True)),
                (
                    "stop_reason",
                    models.CharField(
                        choices=[
                            ("cancelled", "Cancelled"),
                            ("preempted", "Preempted"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        max_length=9,
                        null=True,
                    ),
                ),
                ("notice_at", models.DateTimeField(null=True)),
                ("grace_until", models.DateTimeField(null=True)),
                ("forced_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("released_at", models.DateTimeField(null=True)),
                ("outcome", models.CharField(max_length=12, null=True)),
                ("exit_codes", models.JSONField(default=dict)),
                ("message", models.TextField(blank=True)),
                ("missed_listings", models.IntegerField(default=0)),
                ("missing_since", models.DateTimeField(null=True)),
                ("forgotten_at", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="attempts",
                        to="clusters.cluster",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="attempts",
                        to="jobs.job",
                    ),
                ),
                (
                    "reclaim",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="victims",
                        to="jobs.reclaim",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("started", "started"),
                            ("claimed", "claimed"),
                            ("stopped", "stopped"),
                            ("claim_dropped", "claim_dropped"),
                        ],
                        max_length=13,
                    ),
                ),
                ("mgpu", models.BigIntegerField()),
                ("guaranteed_mgpu", models.BigIntegerField(null=True)),
                (
                    "right",
                    models.CharField(
                        choices=[
                            ("borrowed", "borrowed"),
                            ("borrowed_above", "borrowed_above"),
                            ("preemptible", "preemptible"),
                            ("priority", "priority"),
                        ],
                        max_length=14,
                        null=True,
                    ),
                ),
                ("unsaved_s", models.BigIntegerField(null=True)),
                ("grace_until", models.DateTimeField(null=True)),
                ("victims", models.IntegerField(default=0)),
                ("victims_mgpu", models.BigIntegerField(default=0)),
                (
                    "cycle",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="lines",
                        to="jobs.cycle",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "beneficiary",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["team", "-id"], name="decision_by_team")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind__in", ["started", "claimed", "stopped", "claim_dropped"])
                        ),
                        name="decision_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("beneficiary__isnull", False),
                                ("kind", "stopped"),
                                ("unsaved_s__isnull", False),
                            ),
                            models.Q(
                                models.Q(("kind", "stopped"), _negated=True),
                                ("beneficiary", None),
                                ("unsaved_s", None),
                            ),
                            _connector="OR",
                        ),
                        name="decision_stops_a_job_for_another",
                    ),
                ],
            },
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
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["team", "-id"], name="job_by_team"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["user", "-id"], name="job_by_user"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["organization", "-id"], name="job_by_organization"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    ("state__in", ["held", "queued", "starting", "running", "preempting"])
                ),
                fields=["id"],
                name="job_open",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["state", "-id"], name="job_by_state"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("origin", "native")),
                fields=["organization", "-id"],
                name="job_native",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    ("native_id__isnull", False),
                    ("state__in", ["held", "queued", "starting", "running", "preempting"]),
                ),
                fields=["cluster", "id"],
                name="job_native_open",
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
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state", "queued")), fields=["user"], name="job_queued_by_user"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state", "queued")), fields=["pool"], name="job_queued_by_pool"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("cluster__isnull", False), ("state", "queued")),
                fields=["cluster"],
                name="job_queued_by_cluster",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("begin_at__isnull", False)),
                fields=["begin_at"],
                name="job_begins_at",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("attempt_number__gt", 0)),
                fields=["team", "ended_at"],
                name="job_ended_by_team",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("attempt_number__gt", 0)),
                fields=["user", "ended_at"],
                name="job_ended_by_user",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("name"), name="gin_trgm_ops"
                ),
                name="job_by_part_of_name",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                django.db.models.functions.text.Right(
                    django.db.models.functions.comparison.Cast("id", models.TextField()), 4
                ),
                name="job_by_end_of_id",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "state__in",
                        [
                            "held",
                            "queued",
                            "starting",
                            "running",
                            "preempting",
                            "succeeded",
                            "failed",
                            "cancelled",
                            "timed_out",
                        ],
                    )
                ),
                name="job_state_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("mgpu_per_node__gte", 1), ("mgpu_per_node__lte", 10000000000)),
                name="job_asks_for_gpus",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("node_count__gte", 1), ("node_count__lte", 100000)),
                name="job_asks_for_nodes",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("node_count_min", None),
                    models.Q(
                        ("node_count_min__gte", 1), ("node_count_min__lt", models.F("node_count"))
                    ),
                    _connector="OR",
                ),
                name="elastic_job_is_content_with_fewer_nodes",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("features__len__lte", 16)),
                name="job_asks_for_16_features_at_most",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("pools__len", 0),
                    models.Q(("pools__len__gte", 2), ("pools__len__lte", 4)),
                    _connector="OR",
                ),
                name="job_accepts_a_few_pools_or_one",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("image", None), ("image__regex", "\\A[!-~]+\\Z"), _connector="OR"
                ),
                name="job_image_is_one_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("required_topology", None),
                    models.Q(
                        ("preferred_topology", None),
                        ("required_topology__in", ["node", "nvlink", "rack", "block"]),
                    ),
                    _connector="OR",
                ),
                name="job_requires_a_known_topology_or_prefers_one",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("preferred_topology", None),
                    ("preferred_topology__in", ["node", "nvlink", "rack", "block"]),
                    _connector="OR",
                ),
                name="job_prefers_a_known_topology",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("cpus_per_node", None),
                    models.Q(("cpus_per_node__gte", 1), ("cpus_per_node__lte", 65536)),
                    _connector="OR",
                ),
                name="job_asks_for_some_cpus_or_leaves_them",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("memory_mib_per_node", None),
                    models.Q(
                        ("memory_mib_per_node__gte", 1), ("memory_mib_per_node__lte", 1073741824)
                    ),
                    _connector="OR",
                ),
                name="job_asks_for_some_memory_or_leaves_it",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("time_limit_s", None), ("time_limit_s__gte", 1), _connector="OR"
                ),
                name="job_time_limit_is_positive",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("ended_at__isnull", False),
                        ("state__in", ["succeeded", "failed", "cancelled", "timed_out"]),
                    ),
                    models.Q(
                        models.Q(
                            ("state__in", ["succeeded", "failed", "cancelled", "timed_out"]),
                            _negated=True,
                        ),
                        ("ended_at", None),
                    ),
                    _connector="OR",
                ),
                name="job_has_an_end_when_it_ended",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("origin", "portal"),
                    models.Q(
                        ("origin", "native"),
                        ("script", ""),
                        models.Q(
                            models.Q(("state__in", ["held", "queued"]), _negated=True),
                            models.Q(("cluster__isnull", False), ("native_id__isnull", False)),
                            _connector="OR",
                        ),
                    ),
                    _connector="OR",
                ),
                name="native_job_waits_only_where_we_start_it",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("native_id", None), ("origin", "native"), _connector="OR"),
                name="job_of_the_portal_has_no_native_id",
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
        migrations.AddIndex(
            model_name="dependency",
            index=models.Index(
                condition=models.Q(("closed_at", None)), fields=["job"], name="dependency_open"
            ),
        ),
        migrations.AddIndex(
            model_name="dependency",
            index=models.Index(
                condition=models.Q(("closed_at", None)),
                fields=["predecessor"],
                name="dependency_open_on",
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
        migrations.AddConstraint(
            model_name="dependency",
            constraint=models.UniqueConstraint(
                fields=("job", "predecessor"), name="dependency_named_once_per_job"
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
            model_name="dependency",
            constraint=models.CheckConstraint(
                condition=models.Q(("job", models.F("predecessor")), _negated=True),
                name="dependency_is_on_another_job",
            ),
        ),
        migrations.AddConstraint(
            model_name="dependency",
            constraint=models.CheckConstraint(
                condition=models.Q(("condition__in", ["succeeded", "ended", "failed"])),
                name="dependency_condition_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="dependency",
            constraint=models.CheckConstraint(
                condition=models.Q(("is_met", None), ("closed_at__isnull", False), _connector="OR"),
                name="dependency_is_met_when_closed",
            ),
        ),
        migrations.AddIndex(
            model_name="jobevent",
            index=models.Index(fields=["job", "id"], name="job_event_by_job"),
        ),
        migrations.AddIndex(
            model_name="jobreason",
            index=django.contrib.postgres.indexes.BrinIndex(
                fields=["since"], name="job_reason_by_age"
            ),
        ),
        migrations.AddConstraint(
            model_name="jobreason",
            constraint=models.UniqueConstraint(
                fields=("job", "number"), name="job_reason_number_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="reclaim",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at", None)),
                fields=("job",),
                name="job_has_one_open_reclaim",
            ),
        ),
        migrations.AddConstraint(
            model_name="heldsubmission",
            constraint=models.UniqueConstraint(
                fields=("job", "number"), name="held_submission_number_once_per_job"
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("released_at", None)),
                fields=["cluster"],
                name="attempt_holding_gpus",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("reclaim__isnull", False)),
                fields=["reclaim"],
                name="attempt_taken_back",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("outcome", "not_started")),
                fields=["released_at"],
                name="attempt_not_started",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(
                fields=("job", "number"), name="attempt_number_once_per_job"
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", False), ("state", "ended")),
                    models.Q(
                        models.Q(("state", "ended"), _negated=True),
                        ("ended_at", None),
                        ("released_at", None),
                    ),
                    _connector="OR",
                ),
                name="attempt_ends_before_it_releases",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("guaranteed_mgpu__gte", 0), ("guaranteed_mgpu__lte", models.F("mgpu"))
                ),
                name="attempt_guarantee_is_part_of_it",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "stopping"), _negated=True),
                    ("grace_until__isnull", False),
                    _connector="OR",
                ),
                name="attempt_is_stopped_with_a_deadline",
            ),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("checkpoint_at", None),
                    models.Q(
                        ("checkpoint_at__gte", models.F("started_at")),
                        ("started_at__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="attempt_has_checkpoints_since_its_start",
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
