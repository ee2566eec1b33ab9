"""A department, below which other nodes once lay, is not deleted: bills bear paths below it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tenants", "0008_user_deactivated")]

    operations = [
        migrations.RunSQL(
            sql="""
            CREATE FUNCTION keep_place_of_former_places() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF EXISTS (SELECT FROM tenants_formerplace
                           WHERE path > OLD.path AND path < left(OLD.path, -1) || '0') THEN
                    RAISE EXCEPTION 'something else lay below %', OLD.path
                        USING ERRCODE = 'integrity_constraint_violation',
                              CONSTRAINT = 'place_of_former_places_is_kept';
                END IF;
                RETURN NULL;
            END $$;
            -- At the end: a part of the tree may go as a whole, with all that lay there.
            CREATE CONSTRAINT TRIGGER place_of_former_places_is_kept
                AFTER DELETE ON tenants_node DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION keep_place_of_former_places();
            CREATE CONSTRAINT TRIGGER place_of_former_places_is_kept
                AFTER DELETE ON tenants_formerplace DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION keep_place_of_former_places();
            """,
            reverse_sql="""
            DROP TRIGGER place_of_former_places_is_kept ON tenants_formerplace;
            DROP TRIGGER place_of_former_places_is_kept ON tenants_node;
            DROP FUNCTION keep_place_of_former_places();
            """,
        ),
    ]
