"""Quotas, their history, planned changes, policies and priority classes."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
-- Refuse children's guarantees that sum to more than their parent's.
CREATE FUNCTION refuse_broken_envelope(parent uuid, in_pool uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE own bigint; below bigint;
BEGIN
    SELECT guaranteed_mgpu INTO own FROM quotas_quota
        WHERE node_id = parent AND pool_id = in_pool FOR UPDATE;
    SELECT coalesce(sum(q.guaranteed_mgpu), 0) INTO below
        FROM quotas_quota q JOIN tenants_node n ON n.id = q.node_id
        WHERE n.parent_id = parent AND q.pool_id = in_pool;
    IF below > coalesce(own, 0) THEN
        RAISE EXCEPTION 'children are guaranteed % milli-GPU, their parent only %',
                below, coalesce(own, 0)
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'quota_children_fit_in_their_parent';
    END IF;
END
$$;

-- The history of a quota is deleted with its quota only, and never changed.
CREATE FUNCTION keep_history_of_quota() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE'
            OR EXISTS (SELECT FROM quotas_quota WHERE id = OLD.quota_id) THEN
        RAISE EXCEPTION 'the history of a quota is neither changed nor deleted'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'quota_change_is_append_only';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER quota_change_is_append_only
    BEFORE DELETE OR UPDATE ON quotas_quotachange
    FOR EACH ROW
    EXECUTE FUNCTION keep_history_of_quota();

-- The guarantees of a node's children sum to at most its own, at every commit.
CREATE FUNCTION keep_quota_envelope() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE above uuid;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        SELECT parent_id INTO above FROM tenants_node WHERE id = OLD.node_id;
        IF above IS NOT NULL THEN
            PERFORM refuse_broken_envelope(above, OLD.pool_id);
        END IF;
        PERFORM refuse_broken_envelope(OLD.node_id, OLD.pool_id);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        SELECT parent_id INTO above FROM tenants_node WHERE id = NEW.node_id;
        IF above IS NOT NULL THEN
            PERFORM refuse_broken_envelope(above, NEW.pool_id);
        END IF;
        PERFORM refuse_broken_envelope(NEW.node_id, NEW.pool_id);
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER quota_children_fit_in_their_parent
    AFTER INSERT OR DELETE OR UPDATE ON quotas_quota
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION keep_quota_envelope();

-- The same where a node gets another parent.
CREATE FUNCTION keep_quota_envelope_of_moved_node() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE pool uuid;
BEGIN
    FOR pool IN SELECT pool_id FROM quotas_quota
            WHERE node_id = NEW.id ORDER BY pool_id LOOP
        PERFORM refuse_broken_envelope(NEW.parent_id, pool);
    END LOOP;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER quota_children_fit_in_their_parent
    AFTER UPDATE ON tenants_node
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((old.parent_id <> new.parent_id))
    EXECUTE FUNCTION keep_quota_envelope_of_moved_node();
"""

_NO_RULES = """
DROP TRIGGER quota_children_fit_in_their_parent ON tenants_node;
DROP FUNCTION keep_quota_envelope_of_moved_node();
DROP TRIGGER quota_children_fit_in_their_parent ON quotas_quota;
DROP FUNCTION keep_quota_envelope();
DROP TRIGGER quota_change_is_append_only ON quotas_quotachange;
DROP FUNCTION keep_history_of_quota();
DROP FUNCTION refuse_broken_envelope();
"""


class Migration(migrations.Migration):
    initial = True

    # An installation of the last unreleased version has all of this.
    replaces = [
        ("quotas", "0001_initial"),
        ("quotas", "0002_envelope_holds"),
        ("quotas", "0003_users_of_clusters"),
        ("quotas", "0004_quota_pushes"),
        ("quotas", "0005_half_life_is_sane"),
        ("quotas", "0006_planned_changes"),
        ("quotas", "0007_who_is_spared"),
        ("quotas", "0008_policy_of_the_installation"),
        ("quotas", "0009_classes_are_retired"),
        ("quotas", "0010_policy_of_costly_losses"),
        ("quotas", "0011_planned_edits_compare_settings"),
        ("quotas", "0012_people_have_user_numbers"),
        ("quotas", "0013_organizations_have_time_zones"),
        ("quotas", "0014_guarantees_fit_after_a_move"),
        ("quotas", "0015_history_goes_with_its_quota"),
        ("quotas", "0016_people_beside_the_portal_are_active"),
    ]

    dependencies = [
        ("clusters", "0001_schema"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="InstallationPolicy",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("grace_period_s_max", models.PositiveIntegerField(default=3600)),
                ("starts_max", models.PositiveIntegerField(default=1000)),
                ("reclaims_max", models.PositiveIntegerField(default=100)),
                ("claim_overdue_s", models.PositiveIntegerField(default=600)),
                ("credit_floor_s", models.PositiveIntegerField(default=604800)),
                ("reservations_max", models.PositiveIntegerField(default=8)),
                ("reservation_horizon_s", models.PositiveIntegerField(default=604800)),
                ("min_run_s", models.PositiveIntegerField(default=600)),
                ("preemptions_max", models.PositiveIntegerField(default=100)),
                ("costly_loss_s", models.PositiveIntegerField(default=14400)),
                ("version", models.IntegerField(default=1)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("id", 1)), name="installation_has_one_policy"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("grace_period_s_max__gte", 0), ("grace_period_s_max__lte", 86400)
                        ),
                        name="installation_grace_period_s_max_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("starts_max__gte", 1), ("starts_max__lte", 1000000)),
                        name="installation_starts_max_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("reclaims_max__gte", 1), ("reclaims_max__lte", 1000000)
                        ),
                        name="installation_reclaims_max_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("claim_overdue_s__gte", 0), ("claim_overdue_s__lte", 86400)
                        ),
                        name="installation_claim_overdue_s_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("credit_floor_s__gte", 0), ("credit_floor_s__lte", 31536000)
                        ),
                        name="installation_credit_floor_s_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("reservations_max__gte", 0), ("reservations_max__lte", 1000)
                        ),
                        name="installation_reservations_max_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("reservation_horizon_s__gte", 0),
                            ("reservation_horizon_s__lte", 31622400),
                        ),
                        name="installation_reservation_horizon_s_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("min_run_s__gte", 0), ("min_run_s__lte", 86400)),
                        name="installation_min_run_s_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("preemptions_max__gte", 1), ("preemptions_max__lte", 1000)
                        ),
                        name="installation_preemptions_max_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("costly_loss_s__gte", 0), ("costly_loss_s__lte", 315360000)
                        ),
                        name="installation_costly_loss_s_is_in_range",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="OrganizationPolicy",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        serialize=False,
                        to="tenants.node",
                    ),
                ),
                ("rank", models.JSONField(default=list)),
                ("grace_period_s", models.PositiveIntegerField(default=300)),
                ("fair_share_half_life_s", models.PositiveIntegerField(default=604800)),
                (
                    "spare_order",
                    models.CharField(
                        choices=[
                            ("credits_then_fair_share", "credits_then_fair_share"),
                            ("fair_share_then_credits", "fair_share_then_credits"),
                            ("fair_share", "fair_share"),
                        ],
                        default="credits_then_fair_share",
                        max_length=32,
                    ),
                ),
                ("min_run_s", models.PositiveIntegerField(default=600)),
                ("preemptions_max", models.PositiveIntegerField(default=100)),
                ("skips_blocked_within_team", models.BooleanField(default=True)),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                ("version", models.IntegerField(default=1)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("time_zone__regex", "\\A[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*\\Z")
                        ),
                        name="policy_time_zone_is_plain",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("grace_period_s__lte", 86400)),
                        name="policy_grace_is_at_most_a_day",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("fair_share_half_life_s__gte", 3600),
                            ("fair_share_half_life_s__lte", 315360000),
                        ),
                        name="policy_half_life_is_an_hour_at_least",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "spare_order__in",
                                [
                                    "credits_then_fair_share",
                                    "fair_share_then_credits",
                                    "fair_share",
                                ],
                            )
                        ),
                        name="policy_spare_order_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("min_run_s__lte", 86400)),
                        name="policy_spares_for_a_day_at_most",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("preemptions_max__gte", 1), ("preemptions_max__lte", 1000)
                        ),
                        name="policy_spares_after_one_preemption_at_least",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PlannedChange",
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
                ("reason", models.CharField(max_length=500)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("draft", "Draft"),
                            ("scheduled", "Scheduled"),
                            ("applied", "Applied"),
                            ("reverted", "Reverted"),
                            ("kept", "Kept"),
                            ("cancelled", "Cancelled"),
                            ("expired", "Expired"),
                            ("failed", "Failed"),
                        ],
                        default="draft",
                        max_length=9,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("apply_at", models.DateTimeField(null=True)),
                ("revert_after_s", models.IntegerField(null=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("applied_at", models.DateTimeField(null=True)),
                ("revert_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("note", models.TextField(blank=True)),
                ("version", models.IntegerField(default=1)),
                (
                    "created_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PriorityClass",
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
                ("name", models.CharField(max_length=63)),
                ("order", models.IntegerField()),
                ("preempts_within_team", models.BooleanField(default=False)),
                ("preempts_across_teams", models.BooleanField(default=False)),
                ("grace_period_s", models.PositiveIntegerField(default=300)),
                ("team_cap_mgpu", models.BigIntegerField(null=True)),
                ("price_multiplier_ppm", models.PositiveIntegerField(default=1000000)),
                ("description", models.CharField(blank=True, max_length=200)),
                ("is_retired", models.BooleanField(default=False)),
                ("version", models.IntegerField(default=1)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="priority_classes",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Quota",
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
                ("guaranteed_mgpu", models.BigIntegerField()),
                ("guaranteed_bp", models.IntegerField(null=True)),
                ("lend_limit_mgpu", models.BigIntegerField(null=True)),
                ("borrow_limit_mgpu", models.BigIntegerField(null=True)),
                ("weight", models.IntegerField(default=100)),
                ("version", models.IntegerField(default=1)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quotas",
                        to="tenants.node",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quotas",
                        to="clusters.pool",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PlannedEdit",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("values", models.JSONField()),
                ("before", models.JSONField()),
                (
                    "planned",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="edits",
                        to="quotas.plannedchange",
                    ),
                ),
                (
                    "quota",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="quotas.quota",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="QuotaChange",
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
                ("at", models.DateTimeField()),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField()),
                ("reason", models.CharField(max_length=500)),
                (
                    "actor",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "quota",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="changes",
                        to="quotas.quota",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="QuotaPush",
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
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("check", "Check"),
                            ("dry_run", "Dry Run"),
                            ("push", "Push"),
                            ("accept", "Accept"),
                        ],
                        max_length=8,
                    ),
                ),
                ("subjects", models.JSONField(default=list)),
                ("requested_at", models.DateTimeField()),
                ("done_at", models.DateTimeField(null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[("waiting", "Waiting"), ("done", "Done"), ("failed", "Failed")],
                        default="waiting",
                        max_length=7,
                    ),
                ),
                ("changes", models.JSONField(default=list)),
                ("change_count", models.IntegerField(default=0)),
                ("error", models.TextField(blank=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_pushes",
                        to="clusters.cluster",
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AcceptedDifference",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("subject", models.CharField(max_length=400)),
                ("setting", models.CharField(max_length=100)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.cluster",
                    ),
                ),
                (
                    "push",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="quotas.quotapush",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="UserNumber",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("number", models.PositiveIntegerField(unique=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("number__gte", 1000), ("number__lt", 2147483648)),
                        name="user_number_is_nobody_of_the_system",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ClusterUser",
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
                ("name", models.CharField(max_length=32)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="users",
                        to="clusters.cluster",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "user"), name="user_has_one_name_there"
                    ),
                    models.UniqueConstraint(fields=("cluster", "name"), name="name_is_of_one_user"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("name__regex", "\\A[a-z_][a-z0-9_-]{0,31}\\Z"),
                            models.Q(("name", "root"), _negated=True),
                        ),
                        name="cluster_user_is_a_person",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="NodeUse",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("in_use_mgpu", models.BigIntegerField()),
                ("protected_mgpu", models.BigIntegerField()),
                ("borrowed_mgpu", models.BigIntegerField()),
                ("lent_mgpu", models.BigIntegerField()),
                ("available_mgpu", models.BigIntegerField()),
                ("waiting_mgpu", models.BigIntegerField()),
                ("as_of", models.DateTimeField()),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("node", "pool"), name="use_once_per_node_and_pool"
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="plannedchange",
            index=models.Index(
                condition=models.Q(("status", "draft")),
                fields=["expires_at"],
                name="planned_to_expire",
            ),
        ),
        migrations.AddIndex(
            model_name="plannedchange",
            index=models.Index(
                condition=models.Q(("status", "scheduled")),
                fields=["apply_at"],
                name="planned_to_apply",
            ),
        ),
        migrations.AddIndex(
            model_name="plannedchange",
            index=models.Index(
                condition=models.Q(("status", "applied")),
                fields=["revert_at"],
                name="planned_to_revert",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        [
                            "draft",
                            "scheduled",
                            "applied",
                            "reverted",
                            "kept",
                            "cancelled",
                            "expired",
                            "failed",
                        ],
                    )
                ),
                name="planned_change_has_a_status",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("decided_at", None),
                        ("decided_by", None),
                        models.Q(
                            ("status__in", ("scheduled", "applied", "reverted", "kept", "failed")),
                            _negated=True,
                        ),
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by__isnull", False),
                        models.Q(("status__in", ("draft", "expired")), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="planned_change_was_decided_by_somebody",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status", "scheduled"), _negated=True),
                    ("apply_at__isnull", False),
                    _connector="OR",
                ),
                name="planned_change_is_scheduled_for_a_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("applied_at__isnull", False),
                        ("status__in", ("applied", "reverted", "kept")),
                    ),
                    models.Q(
                        ("applied_at", None),
                        models.Q(("status__in", ("applied", "reverted", "kept")), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="planned_change_knows_when_it_was_applied",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("revert_at", None),
                    models.Q(
                        ("revert_after_s__isnull", False), ("revert_at__gt", models.F("applied_at"))
                    ),
                    _connector="OR",
                ),
                name="planned_change_is_reverted_after_it_was_applied",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status__in", ("reverted", "kept")), _negated=True),
                    ("revert_at__isnull", False),
                    _connector="OR",
                ),
                name="planned_change_is_reverted_as_was_planned",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at", None), ("status__in", ("draft", "scheduled", "applied"))),
                    models.Q(
                        ("ended_at__isnull", False),
                        models.Q(("status__in", ("draft", "scheduled", "applied")), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="planned_change_has_an_end_when_it_ended",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannedchange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("revert_after_s", None),
                    models.Q(("revert_after_s__gte", 60), ("revert_after_s__lte", 31622400)),
                    _connector="OR",
                ),
                name="planned_change_lasts_a_minute_to_a_year",
            ),
        ),
        migrations.AddConstraint(
            model_name="priorityclass",
            constraint=models.UniqueConstraint(
                fields=("organization", "name"), name="priority_class_once_per_organization"
            ),
        ),
        migrations.AddConstraint(
            model_name="priorityclass",
            constraint=models.CheckConstraint(
                condition=models.Q(("order__gte", 0), ("order__lte", 1000000)),
                name="priority_class_order_is_sane",
            ),
        ),
        migrations.AddConstraint(
            model_name="priorityclass",
            constraint=models.CheckConstraint(
                condition=models.Q(("grace_period_s__lte", 86400)),
                name="priority_class_grace_is_at_most_a_day",
            ),
        ),
        migrations.AddConstraint(
            model_name="priorityclass",
            constraint=models.CheckConstraint(
                condition=models.Q(("price_multiplier_ppm__lte", 100000000)),
                name="priority_class_price_is_at_most_hundredfold",
            ),
        ),
        migrations.AddConstraint(
            model_name="priorityclass",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("team_cap_mgpu", None), ("team_cap_mgpu__gte", 0), _connector="OR"
                ),
                name="priority_class_cap_is_not_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="priorityclass",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("preempts_across_teams", False),
                    ("team_cap_mgpu__isnull", False),
                    _connector="OR",
                ),
                name="priority_class_preempts_across_teams_up_to_a_cap",
            ),
        ),
        migrations.AddConstraint(
            model_name="quota",
            constraint=models.UniqueConstraint(
                fields=("node", "pool"), name="quota_once_per_node_and_pool"
            ),
        ),
        migrations.AddConstraint(
            model_name="quota",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("guaranteed_mgpu__gte", 0), ("guaranteed_mgpu__lte", 10000000000)
                ),
                name="quota_guarantee_is_sane",
            ),
        ),
        migrations.AddConstraint(
            model_name="quota",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("guaranteed_bp", None),
                    models.Q(("guaranteed_bp__gte", 0), ("guaranteed_bp__lte", 10000)),
                    _connector="OR",
                ),
                name="quota_percentage_is_at_most_all",
            ),
        ),
        migrations.AddConstraint(
            model_name="quota",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lend_limit_mgpu", None),
                    models.Q(
                        ("lend_limit_mgpu__gte", 0),
                        ("lend_limit_mgpu__lte", models.F("guaranteed_mgpu")),
                    ),
                    _connector="OR",
                ),
                name="quota_lends_at_most_its_guarantee",
            ),
        ),
        migrations.AddConstraint(
            model_name="quota",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("borrow_limit_mgpu", None),
                    models.Q(
                        ("borrow_limit_mgpu__gte", 0), ("borrow_limit_mgpu__lte", 10000000000)
                    ),
                    _connector="OR",
                ),
                name="quota_borrow_limit_is_sane",
            ),
        ),
        migrations.AddConstraint(
            model_name="quota",
            constraint=models.CheckConstraint(
                condition=models.Q(("weight__gte", 1), ("weight__lte", 1000000)),
                name="quota_weight_is_sane",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannededit",
            constraint=models.UniqueConstraint(
                fields=("planned", "quota"), name="quota_once_per_planned_change"
            ),
        ),
        migrations.AddConstraint(
            model_name="plannededit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "values__has_any_keys",
                        [
                            "guaranteed_mgpu",
                            "guaranteed_bp",
                            "borrow_limit_mgpu",
                            "lend_limit_mgpu",
                            "weight",
                        ],
                    )
                ),
                name="planned_edit_sets_something",
            ),
        ),
        migrations.AddConstraint(
            model_name="plannededit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("values__has_keys", ["guaranteed_mgpu", "guaranteed_bp"]), _negated=True
                ),
                name="planned_edit_guarantees_one_way",
            ),
        ),
        migrations.AddIndex(
            model_name="quotapush",
            index=models.Index(fields=["cluster", "-id"], name="quota_push_by_cluster"),
        ),
        migrations.AddConstraint(
            model_name="quotapush",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("done_at", None), ("status", "waiting")),
                    models.Q(
                        models.Q(("status", "waiting"), _negated=True), ("done_at__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="quota_push_has_an_end_when_it_ended",
            ),
        ),
        migrations.AddConstraint(
            model_name="accepteddifference",
            constraint=models.UniqueConstraint(
                fields=("cluster", "subject", "setting"), name="difference_accepted_once"
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
