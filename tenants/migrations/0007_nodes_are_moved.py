"""Nodes of the tree are moved, and where each lay before is kept."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0006_nodes_are_archived")]

    operations = [
        # Other packages ask for it too, in an order that is not ours.
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS btree_gist", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="node", name="moved_at", field=models.DateTimeField(null=True)
        ),
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                condition=models.Q(("moved_at__isnull", False)),
                fields=["moved_at"],
                name="tree_node_moved",
            ),
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
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("start", None), ("start__lt", models.F("end")), _connector="OR"
                        ),
                        name="former_place_has_a_length",
                    ),
                    django.contrib.postgres.constraints.ExclusionConstraint(
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
                ],
            },
        ),
        migrations.RunSQL(
            sql="""
            -- What is above is asked for a new node at once; of a move, which changes all paths
            -- below in one statement and in any order, only after that.
            CREATE OR REPLACE FUNCTION keep_tree_node_in_its_place() RETURNS trigger
            LANGUAGE plpgsql AS $$
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
            END $$;
            CREATE TRIGGER tree_node_keeps_its_place_after_a_move
                AFTER UPDATE OF path ON tenants_node
                FOR EACH ROW EXECUTE FUNCTION keep_tree_node_in_its_place();

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
            END $$;
            CREATE TRIGGER tree_node_leaves_its_place
                AFTER UPDATE OF path ON tenants_node
                FOR EACH ROW WHEN (OLD.path <> NEW.path) EXECUTE FUNCTION keep_former_place();

            -- After the row: its path may have waited for whoever was just leaving it.
            CREATE FUNCTION refuse_path_of_another_node() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (SELECT FROM tenants_formerplace
                           WHERE path = NEW.path AND node_id <> NEW.id) THEN
                    RAISE EXCEPTION 'path % was another node''s', NEW.path
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'tree_path_stays_its_nodes';
                END IF;
                RETURN NULL;
            END $$;
            CREATE TRIGGER tree_path_stays_its_nodes
                AFTER INSERT OR UPDATE OF path ON tenants_node
                FOR EACH ROW EXECUTE FUNCTION refuse_path_of_another_node();

            CREATE FUNCTION keep_former_places() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF TG_OP = 'UPDATE' OR EXISTS (
                        SELECT FROM tenants_node WHERE id = OLD.node_id) THEN
                    RAISE EXCEPTION 'where a node lay stays as it is'
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'former_place_is_kept';
                END IF;
                RETURN OLD;
            END $$;
            CREATE TRIGGER former_place_is_kept
                BEFORE UPDATE OR DELETE ON tenants_formerplace
                FOR EACH ROW EXECUTE FUNCTION keep_former_places();

            DROP TRIGGER tree_node_is_archived_with_its_parent ON tenants_node;
            CREATE TRIGGER tree_node_is_archived_with_its_parent
                AFTER INSERT OR UPDATE OF archived_at, parent_id ON tenants_node
                FOR EACH ROW EXECUTE FUNCTION keep_archived_trees_whole();
            """,
            reverse_sql="""
            DROP TRIGGER tree_node_is_archived_with_its_parent ON tenants_node;
            CREATE TRIGGER tree_node_is_archived_with_its_parent
                AFTER INSERT OR UPDATE OF archived_at ON tenants_node
                FOR EACH ROW EXECUTE FUNCTION keep_archived_trees_whole();
            DROP TRIGGER former_place_is_kept ON tenants_formerplace;
            DROP TRIGGER tree_path_stays_its_nodes ON tenants_node;
            DROP TRIGGER tree_node_leaves_its_place ON tenants_node;
            DROP TRIGGER tree_node_keeps_its_place_after_a_move ON tenants_node;
            DROP FUNCTION keep_former_places();
            DROP FUNCTION refuse_path_of_another_node();
            DROP FUNCTION keep_former_place();
            CREATE OR REPLACE FUNCTION keep_tree_node_in_its_place() RETURNS trigger
            LANGUAGE plpgsql AS $$
            DECLARE parent tenants_node;
            BEGIN
                IF TG_OP = 'UPDATE' AND (NEW.parent_id, NEW.slug, NEW.kind, NEW.path, NEW.organization_id)
                        IS DISTINCT FROM (OLD.parent_id, OLD.slug, OLD.kind, OLD.path, OLD.organization_id) THEN
                    RAISE EXCEPTION 'a node of the tree does not move'
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
                SELECT * INTO parent FROM tenants_node WHERE id = NEW.parent_id FOR KEY SHARE;
                IF parent.kind = 'team' OR NEW.path <> parent.path || NEW.slug || '/'
                        OR NEW.organization_id <> parent.organization_id THEN
                    RAISE EXCEPTION '% does not fit below %', NEW.path, parent.path
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'tree_node_keeps_its_place';
                END IF;
                RETURN NEW;
            END $$;
            """,
        ),
    ]
