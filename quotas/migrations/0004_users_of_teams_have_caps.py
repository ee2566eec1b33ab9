"""Caps for the users of teams."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

#: A cap is of a team, and of a user of the team's organization.
_RULES = """
CREATE FUNCTION refuse_user_cap_of_others() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM tenants_node n
        WHERE n.id = NEW.team_id AND n.kind = 'team' AND (
            NEW.user_id IS NULL OR EXISTS (
                SELECT FROM tenants_user u
                WHERE u.id = NEW.user_id AND u.organization_id = n.organization_id))
    ) THEN
        RAISE EXCEPTION 'a cap is of a team and of a user of its organization'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'user_cap_is_of_a_team';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER user_cap_is_of_a_team
    BEFORE INSERT OR UPDATE OF team_id, user_id ON quotas_usercap
    FOR EACH ROW EXECUTE FUNCTION refuse_user_cap_of_others();
"""
_NO_RULES = """
DROP TRIGGER user_cap_is_of_a_team ON quotas_usercap;
DROP FUNCTION refuse_user_cap_of_others();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0003_jobs_may_reach_the_portal"),
        ("quotas", "0003_classes_count_use_at_a_factor"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="UserCap",
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
                ("cap_mgpu", models.BigIntegerField(null=True)),
                ("version", models.IntegerField(default=1)),
                (
                    "pool",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("team", "user", "pool"),
                        name="user_cap_once_for_user_and_pool",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("cap_mgpu__isnull", True), ("user__isnull", False)),
                            models.Q(
                                ("cap_mgpu__gte", 0),
                                ("cap_mgpu__isnull", False),
                                ("cap_mgpu__lte", 10000000000),
                            ),
                            _connector="OR",
                        ),
                        name="user_cap_is_a_number_of_gpus",
                    ),
                ],
            },
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
