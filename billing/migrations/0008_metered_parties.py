"""Whose attempts were metered is checked once for each combination, and not for each attempt."""

from typing import Any

from django.conf import settings
from django.db import migrations, models
from django.db.models import PROTECT


def _reference(to: str, **options: Any) -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(on_delete=PROTECT, related_name="+", to=to, **options)


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0007_late_use"),
        ("clusters", "0010_pools_of_cpu_cores"),
        ("tenants", "0003_sessions_end_and_attempts_count"),
    ]

    operations = [
        migrations.CreateModel(
            name="MeteredParty",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("organization", _reference("tenants.node")),
                ("team", _reference("tenants.node")),
                ("user", _reference(settings.AUTH_USER_MODEL)),
                ("pool", _reference("clusters.pool")),
                ("cluster", _reference("clusters.cluster")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["user", "team", "pool", "cluster", "organization"],
                        name="metered_party_is_told_once",
                    )
                ],
            },
        ),
        migrations.RunSQL(
            sql="""
            -- Before there are two of them at once, so that none comes in between.
            LOCK TABLE billing_meteredattempt IN SHARE ROW EXCLUSIVE MODE;
            INSERT INTO billing_meteredparty (organization_id, team_id, user_id, pool_id, cluster_id)
            SELECT DISTINCT organization_id, team_id, user_id, pool_id, cluster_id
            FROM billing_meteredattempt;
            -- In an order, so that two who add the same ones wait for each other and never in turn.
            CREATE FUNCTION know_metered_parties() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO billing_meteredparty
                    (organization_id, team_id, user_id, pool_id, cluster_id)
                SELECT DISTINCT a.organization_id, a.team_id, a.user_id, a.pool_id, a.cluster_id
                FROM added a
                WHERE NOT EXISTS (
                    SELECT FROM billing_meteredparty p
                    WHERE p.user_id = a.user_id AND p.team_id = a.team_id
                        AND p.pool_id = a.pool_id AND p.cluster_id = a.cluster_id
                        AND p.organization_id = a.organization_id
                )
                ORDER BY 1, 2, 3, 4, 5
                ON CONFLICT DO NOTHING;
                RETURN NULL;
            END $$;
            CREATE TRIGGER metered_parties_are_known
                AFTER INSERT ON billing_meteredattempt REFERENCING NEW TABLE AS added
                FOR EACH STATEMENT EXECUTE FUNCTION know_metered_parties();
            CREATE TRIGGER metered_party_is_append_only
                BEFORE UPDATE OR DELETE ON billing_meteredparty
                FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
            """,
            reverse_sql="""
            DROP TRIGGER metered_party_is_append_only ON billing_meteredparty;
            DROP TRIGGER metered_parties_are_known ON billing_meteredattempt;
            DROP FUNCTION know_metered_parties();
            """,
        ),
        migrations.AlterField(
            model_name="meteredattempt",
            name="organization",
            field=_reference("tenants.node", db_constraint=False),
        ),
        migrations.AlterField(
            model_name="meteredattempt",
            name="team",
            field=_reference("tenants.node", db_constraint=False),
        ),
        migrations.AlterField(
            model_name="meteredattempt",
            name="user",
            field=_reference(settings.AUTH_USER_MODEL, db_constraint=False),
        ),
        migrations.AlterField(
            model_name="meteredattempt",
            name="pool",
            field=_reference("clusters.pool", db_constraint=False, db_index=False),
        ),
        migrations.AlterField(
            model_name="meteredattempt",
            name="cluster",
            field=_reference("clusters.cluster", db_constraint=False, db_index=False),
        ),
        # The reference's own index is the same.
        migrations.RemoveIndex(model_name="meteredattempt", name="metered_by_team"),
    ]
