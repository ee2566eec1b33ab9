"""Nodes of the tree are archived, and with each of them all below it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0005_passwords_and_links")]

    operations = [
        migrations.AddField(
            model_name="node", name="archived_at", field=models.DateTimeField(null=True)
        ),
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                condition=models.Q(("archived_at__isnull", False)),
                fields=["archived_at"],
                name="tree_node_archived",
            ),
        ),
        migrations.RunSQL(
            sql="""
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
            END $$;
            CREATE TRIGGER tree_node_is_archived_with_its_parent
                AFTER INSERT OR UPDATE OF archived_at ON tenants_node
                FOR EACH ROW EXECUTE FUNCTION keep_archived_trees_whole();
            """,
            reverse_sql="""
            DROP TRIGGER tree_node_is_archived_with_its_parent ON tenants_node;
            DROP FUNCTION keep_archived_trees_whole();
            """,
        ),
    ]
