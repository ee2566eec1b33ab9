"""The tree of organizations, departments and teams, people, roles and tokens."""

import datetime

import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
import django.db.models.expressions
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
-- A node of the tree is archived with all nodes below it.
CREATE FUNCTION keep_archived_trees_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE above timestamptz;
BEGIN
    -- Waits for whoever archives the parent at this moment.
    SELECT archived_at INTO above FROM tenants_node WHERE id = NEW.parent_id FOR SHARE;
    IF (NEW.archived_at IS NULL AND above IS NOT NULL)
            OR (NEW.archived_at IS NOT NULL AND EXISTS (
                SELECT FROM tenants_node
                WHERE parent_id = NEW.id AND archived_at IS NULL)) THEN
        RAISE EXCEPTION 'everything below an archived node is archived'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'tree_node_is_archived_with_its_parent';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER tree_node_is_archived_with_its_parent
    AFTER INSERT OR UPDATE OF archived_at, parent_id ON tenants_node
    FOR EACH ROW
    EXECUTE FUNCTION keep_archived_trees_whole();

-- Keep the path that a node leaves by a move.
CREATE FUNCTION keep_former_place() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.moved_at IS NULL OR NEW.moved_at <= OLD.moved_at THEN
        RAISE EXCEPTION 'a node moves at a time, after it moved last'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'tree_node_leaves_its_place';
    END IF;
    INSERT INTO tenants_formerplace (node_id, path, "start", "end")
        VALUES (OLD.id, OLD.path, OLD.moved_at, NEW.moved_at);
    RETURN NULL;
END
$$;
CREATE TRIGGER tree_node_leaves_its_place
    AFTER UPDATE OF path ON tenants_node
    FOR EACH ROW WHEN ((old.path <> new.path))
    EXECUTE FUNCTION keep_former_place();

-- Former paths are neither changed nor deleted while their node exists.
CREATE FUNCTION keep_former_places() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' OR EXISTS (
            SELECT FROM tenants_node WHERE id = OLD.node_id) THEN
        RAISE EXCEPTION 'where a node lay stays as it is'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'former_place_is_kept';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER former_place_is_kept
    BEFORE DELETE OR UPDATE ON tenants_formerplace
    FOR EACH ROW
    EXECUTE FUNCTION keep_former_places();

-- A role is granted inside the organization of its user.
CREATE FUNCTION keep_grant_in_its_organization() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE home uuid; target uuid;
BEGIN
    SELECT organization_id INTO home FROM tenants_user WHERE id = NEW.user_id;
    SELECT organization_id INTO target FROM tenants_node WHERE id = NEW.node_id;
    IF home IS NOT NULL AND target IS DISTINCT FROM home THEN
        RAISE EXCEPTION 'a role is granted inside the organization of its user'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'role_stays_in_its_organization';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER role_stays_in_its_organization
    BEFORE INSERT OR UPDATE ON tenants_rolegrant
    FOR EACH ROW
    EXECUTE FUNCTION keep_grant_in_its_organization();

-- A department below which other nodes once lay is kept: bills bear paths below it.
CREATE FUNCTION keep_place_of_former_places() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM tenants_formerplace
               WHERE path > OLD.path AND path < left(OLD.path, -1) || '0') THEN
        RAISE EXCEPTION 'something else lay below %', OLD.path
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'place_of_former_places_is_kept';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER place_of_former_places_is_kept
    AFTER DELETE ON tenants_formerplace
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION keep_place_of_former_places();
CREATE CONSTRAINT TRIGGER place_of_former_places_is_kept
    AFTER DELETE ON tenants_node
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION keep_place_of_former_places();

-- Path, organization and kind of a node follow from its parent.
CREATE FUNCTION keep_tree_node_in_its_place() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE parent tenants_node;
BEGIN
    IF TG_OP = 'UPDATE' AND (
            (NEW.slug, NEW.kind, NEW.organization_id, NEW.parent_id IS NULL)
                IS DISTINCT FROM
                (OLD.slug, OLD.kind, OLD.organization_id, OLD.parent_id IS NULL)
            OR NEW.path = OLD.path AND (NEW.parent_id, NEW.moved_at)
                IS DISTINCT FROM (OLD.parent_id, OLD.moved_at)) THEN
        RAISE EXCEPTION 'a node moves within its organization, to another path'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'tree_node_keeps_its_place';
    END IF;
    IF NEW.parent_id IS NULL THEN
        IF NEW.path <> NEW.slug || '/' THEN
            RAISE EXCEPTION 'path % is not that of organization %', NEW.path, NEW.slug
                USING ERRCODE = 'integrity_constraint_violation',
                      CONSTRAINT = 'tree_node_keeps_its_place';
        END IF;
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND TG_WHEN = 'BEFORE' THEN
        RETURN NEW;
    END IF;
    SELECT * INTO parent FROM tenants_node WHERE id = NEW.parent_id FOR KEY SHARE;
    IF parent.kind = 'team' OR NEW.path <> parent.path || NEW.slug || '/'
            OR NEW.organization_id <> parent.organization_id
            OR EXISTS (SELECT FROM tenants_node below
                       WHERE below.parent_id = NEW.id
                         AND below.path <> NEW.path || below.slug || '/') THEN
        RAISE EXCEPTION '% does not fit below %', NEW.path, parent.path
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'tree_node_keeps_its_place';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER tree_node_keeps_its_place
    BEFORE INSERT OR UPDATE ON tenants_node
    FOR EACH ROW
    EXECUTE FUNCTION keep_tree_node_in_its_place();
CREATE TRIGGER tree_node_keeps_its_place_after_a_move
    AFTER UPDATE OF path ON tenants_node
    FOR EACH ROW
    EXECUTE FUNCTION keep_tree_node_in_its_place();

-- No node takes a path that was another node's.
CREATE FUNCTION refuse_path_of_another_node() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM tenants_formerplace
               WHERE path = NEW.path AND node_id <> NEW.id) THEN
        RAISE EXCEPTION 'path % was another node''s', NEW.path
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'tree_path_stays_its_nodes';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER tree_path_stays_its_nodes
    AFTER INSERT OR UPDATE OF path ON tenants_node
    FOR EACH ROW
    EXECUTE FUNCTION refuse_path_of_another_node();
"""

_NO_RULES = """
DROP TRIGGER tree_path_stays_its_nodes ON tenants_node;
DROP FUNCTION refuse_path_of_another_node();
DROP TRIGGER tree_node_keeps_its_place ON tenants_node;
DROP TRIGGER tree_node_keeps_its_place_after_a_move ON tenants_node;
DROP FUNCTION keep_tree_node_in_its_place();
DROP TRIGGER place_of_former_places_is_kept ON tenants_formerplace;
DROP TRIGGER place_of_former_places_is_kept ON tenants_node;
DROP FUNCTION keep_place_of_former_places();
DROP TRIGGER role_stays_in_its_organization ON tenants_rolegrant;
DROP FUNCTION keep_grant_in_its_organization();
DROP TRIGGER former_place_is_kept ON tenants_formerplace;
DROP FUNCTION keep_former_places();
DROP TRIGGER tree_node_leaves_its_place ON tenants_node;
DROP FUNCTION keep_former_place();
DROP TRIGGER tree_node_is_archived_with_its_parent ON tenants_node;
DROP FUNCTION keep_archived_trees_whole();
"""


class Migration(migrations.Migration):
    initial = True

    # An installation of the last unreleased version has all of this.
    replaces = [
        ("tenants", "0001_initial"),
        ("tenants", "0002_tree_keeps_its_shape"),
        ("tenants", "0003_sessions_end_and_attempts_count"),
        ("tenants", "0004_sign_in_waits_grow"),
        ("tenants", "0005_passwords_and_links"),
        ("tenants", "0006_nodes_are_archived"),
        ("tenants", "0007_nodes_are_moved"),
        ("tenants", "0008_user_deactivated"),
        ("tenants", "0009_departments_that_teams_left_are_kept"),
    ]

    dependencies = []

    operations = [
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS citext", migrations.RunSQL.noop),
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS btree_gist", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Node",
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
                            ("organization", "Organization"),
                            ("department", "Department"),
                            ("team", "Team"),
                        ],
                        max_length=12,
                    ),
                ),
                ("slug", models.CharField(max_length=63)),
                ("name", models.CharField(max_length=200)),
                ("path", models.TextField(db_collation="C", unique=True)),
                ("created_at", models.DateTimeField()),
                ("archived_at", models.DateTimeField(null=True)),
                ("moved_at", models.DateTimeField(null=True)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="FormerPlace",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("path", models.TextField(db_collation="C", db_index=True)),
                ("start", models.DateTimeField(null=True)),
                ("end", models.DateTimeField()),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="former_places",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                ("password", models.CharField(max_length=128, verbose_name="password")),
                (
                    "last_login",
                    models.DateTimeField(blank=True, null=True, verbose_name="last login"),
                ),
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("username", models.CharField(max_length=63)),
                ("login", models.CharField(max_length=127, unique=True)),
                ("name", models.CharField(max_length=200)),
                (
                    "kind",
                    models.CharField(
                        choices=[("person", "Person"), ("service", "Service")],
                        default="person",
                        max_length=7,
                    ),
                ),
                ("email", models.EmailField(blank=True, default="", max_length=254)),
                ("is_active", models.BooleanField(default=True)),
                ("must_change_password", models.BooleanField(default=False)),
                ("session_generation", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="users",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RoleGrant",
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
                    "role",
                    models.CharField(
                        choices=[
                            ("platform_admin", "platform_admin"),
                            ("organization_admin", "organization_admin"),
                            ("department_admin", "department_admin"),
                            ("team_lead", "team_lead"),
                            ("researcher", "researcher"),
                            ("finance", "finance"),
                            ("auditor", "auditor"),
                            ("service_account", "service_account"),
                        ],
                        max_length=24,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "granted_by",
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
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SignInAttempts",
            fields=[
                ("key", models.BinaryField(max_length=32, primary_key=True, serialize=False)),
                ("attempts", models.PositiveIntegerField()),
                ("refusals", models.PositiveIntegerField(default=0)),
                ("last_attempt_at", models.DateTimeField()),
                ("blocked_until", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["last_attempt_at"], name="sign_in_attempts_by_age")
                ],
            },
        ),
        migrations.CreateModel(
            name="PasswordLink",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="password_link",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("expires_at__gt", models.F("created_at")),
                            (
                                "expires_at__lte",
                                django.db.models.expressions.CombinedExpression(
                                    models.F("created_at"),
                                    "+",
                                    models.Value(datetime.timedelta(seconds=3600)),
                                ),
                            ),
                        ),
                        name="password_link_lives_an_hour",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AccessToken",
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
                ("name", models.CharField(max_length=100)),
                ("prefix", models.CharField(max_length=12)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=16), size=None
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "made_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "minted_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="minted",
                        to="tenants.accesstoken",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))),
                        name="token_expires_after_creation",
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="node",
            index=models.Index(fields=["organization", "kind"], name="tree_node_by_organization"),
        ),
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                condition=models.Q(("archived_at__isnull", False)),
                fields=["archived_at"],
                name="tree_node_archived",
            ),
        ),
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                condition=models.Q(("moved_at__isnull", False)),
                fields=["moved_at"],
                name="tree_node_moved",
            ),
        ),
        migrations.AddConstraint(
            model_name="node",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["organization", "department", "team"])),
                name="tree_node_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="node",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "organization"), ("parent", None)),
                    models.Q(
                        models.Q(("kind", "organization"), _negated=True), ("parent__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="tree_node_without_parent_is_an_organization",
            ),
        ),
        migrations.AddConstraint(
            model_name="node",
            constraint=models.CheckConstraint(
                condition=models.Q(("slug__regex", "\\A[a-z0-9]([a-z0-9-]*[a-z0-9])?\\Z")),
                name="tree_node_slug_is_plain",
            ),
        ),
        migrations.AddConstraint(
            model_name="node",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "organization"), _negated=True),
                    ("organization", models.F("id")),
                    _connector="OR",
                ),
                name="tree_organization_is_its_own",
            ),
        ),
        migrations.AddConstraint(
            model_name="formerplace",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("start", None), ("start__lt", models.F("end")), _connector="OR"
                ),
                name="former_place_has_a_length",
            ),
        ),
        migrations.AddConstraint(
            model_name="formerplace",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[
                    ("node", "="),
                    (
                        models.Func(
                            "start",
                            "end",
                            django.contrib.postgres.fields.ranges.RangeBoundary(),
                            function="TSTZRANGE",
                        ),
                        "&&",
                    ),
                ],
                name="node_was_in_one_place_at_a_time",
            ),
        ),
        migrations.AddIndex(
            model_name="user",
            index=models.Index(
                condition=models.Q(("is_active", False)), fields=["id"], name="user_deactivated"
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.UniqueConstraint(
                fields=("organization", "username"), name="user_name_once_per_organization"
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(("username__regex", "\\A[a-z0-9]([a-z0-9._-]*[a-z0-9])?\\Z")),
                name="user_name_is_plain",
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["person", "service"])), name="user_kind_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="rolegrant",
            constraint=models.UniqueConstraint(
                fields=("user", "role", "node"), name="role_granted_once", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="rolegrant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("node", None), ("role", "platform_admin")),
                    models.Q(
                        models.Q(("role", "platform_admin"), _negated=True), ("node__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="role_without_node_is_platform_admin",
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
