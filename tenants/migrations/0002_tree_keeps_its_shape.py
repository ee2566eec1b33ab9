"""The tree is kept by the database: path, organization and kind follow from the parent."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION keep_tree_node_in_its_place() RETURNS trigger
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
            CREATE TRIGGER tree_node_keeps_its_place
                BEFORE INSERT OR UPDATE ON tenants_node
                FOR EACH ROW EXECUTE FUNCTION keep_tree_node_in_its_place();

            CREATE FUNCTION keep_grant_in_its_organization() RETURNS trigger
            LANGUAGE plpgsql AS $$
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
            END $$;
            CREATE TRIGGER role_stays_in_its_organization
                BEFORE INSERT OR UPDATE ON tenants_rolegrant
                FOR EACH ROW EXECUTE FUNCTION keep_grant_in_its_organization();
            """,
            reverse_sql="""
            DROP TRIGGER role_stays_in_its_organization ON tenants_rolegrant;
            DROP FUNCTION keep_grant_in_its_organization();
            DROP TRIGGER tree_node_keeps_its_place ON tenants_node;
            DROP FUNCTION keep_tree_node_in_its_place();
            """,
        ),
    ]
