"""Former archivings of nodes. Those that were ended before are not known."""

import django.db.models.deletion
from django.db import migrations, models

_RULES = """
-- A restore leaves the time of the archiving.
CREATE FUNCTION require_former_archiving() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM tenants_formerarchiving
                   WHERE node_id = OLD.id AND start = OLD.archived_at) THEN
        RAISE EXCEPTION 'the time in which % was archived is stored with its restore', OLD.path
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'tree_node_keeps_its_archivings';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER tree_node_keeps_its_archivings
    AFTER UPDATE OF archived_at ON tenants_node
    FOR EACH ROW WHEN (OLD.archived_at IS NOT NULL
                       AND NEW.archived_at IS DISTINCT FROM OLD.archived_at)
    EXECUTE FUNCTION require_former_archiving();

-- Former archivings are neither changed nor deleted while their node exists.
CREATE FUNCTION keep_former_archivings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' OR EXISTS (
            SELECT FROM tenants_node WHERE id = OLD.node_id) THEN
        RAISE EXCEPTION 'the time in which a node was archived stays as it is'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'former_archiving_is_kept';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER former_archiving_is_kept
    BEFORE DELETE OR UPDATE ON tenants_formerarchiving
    FOR EACH ROW
    EXECUTE FUNCTION keep_former_archivings();
"""

_NO_RULES = """
DROP TRIGGER former_archiving_is_kept ON tenants_formerarchiving;
DROP FUNCTION keep_former_archivings();
DROP TRIGGER tree_node_keeps_its_archivings ON tenants_node;
DROP FUNCTION require_former_archiving();
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_schema")]

    operations = [
        migrations.CreateModel(
            name="FormerArchiving",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField()),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="former_archivings",
                        to="tenants.node",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(start__lte=models.F("end")),
                        name="former_archiving_ends_after_its_start",
                    )
                ],
            },
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
