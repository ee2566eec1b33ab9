"""People and groups that SCIM pushes, and the tokens with which it does."""

import datetime

import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.text
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

_RULES = """
CREATE FUNCTION provisioned_person_is_of_its_organization() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM tenants_user u WHERE u.id = NEW.user_id AND u.kind = 'person'
                   AND u.organization_id = NEW.organization_id) THEN
        RAISE EXCEPTION 'a provisioned person is a person of the same organization'
            USING ERRCODE = 'check_violation',
                  CONSTRAINT = 'provisioned_person_is_of_its_organization';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER provisioned_person_is_of_its_organization
    BEFORE INSERT OR UPDATE OF user_id, organization_id ON identity_provisionedperson
    FOR EACH ROW EXECUTE FUNCTION provisioned_person_is_of_its_organization();

CREATE FUNCTION member_is_of_its_group() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM identity_provisionedgroup g
                   JOIN identity_provisionedperson p ON p.organization_id = g.organization_id
                   WHERE g.id = NEW.group_id AND p.user_id = NEW.person_id) THEN
        RAISE EXCEPTION 'a member of a group belongs to the organization of the group'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'member_is_of_its_group';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER member_is_of_its_group BEFORE INSERT OR UPDATE ON identity_groupmembership
    FOR EACH ROW EXECUTE FUNCTION member_is_of_its_group();
"""
_NO_RULES = """
DROP TRIGGER member_is_of_its_group ON identity_groupmembership;
DROP FUNCTION member_is_of_its_group();
DROP TRIGGER provisioned_person_is_of_its_organization ON identity_provisionedperson;
DROP FUNCTION provisioned_person_is_of_its_organization();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("identity", "0003_approvals_end_with_sessions"),
        ("tenants", "0008_refused_invitations_are_mailed_later"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ProvisionedGroup",
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
                ("display_name", models.CharField(max_length=200)),
                ("external_id", models.CharField(blank=True, default="", max_length=255)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ProvisionedPerson",
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
                ("user_name", models.CharField(max_length=200)),
                ("external_id", models.CharField(blank=True, default="", max_length=255)),
                ("attributes", models.JSONField()),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                ("is_deactivated_by_scim", models.BooleanField(default=False)),
                ("deleted_at", models.DateTimeField(null=True)),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="GroupMembership",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to="identity.provisionedgroup",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to="identity.provisionedperson",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ScimSettings",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="tenants.node",
                    ),
                ),
                (
                    "external_id_claim",
                    models.CharField(
                        choices=[("sub", "Subject"), ("oid", "Object Id"), ("uid", "User Id")],
                        default="sub",
                        max_length=8,
                    ),
                ),
                ("adopts_accounts", models.BooleanField(default=False)),
                ("version", models.PositiveIntegerField(default=1)),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("external_id_claim__in", ["sub", "oid", "uid"])),
                        name="identity_scim_claim_is_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ScimToken",
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
                ("name", models.CharField(max_length=60)),
                ("prefix", models.CharField(max_length=12)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="provisionedgroup",
            constraint=models.UniqueConstraint(
                models.F("organization"),
                django.db.models.functions.text.Lower("display_name"),
                name="identity_display_name_is_one_group",
            ),
        ),
        migrations.AddConstraint(
            model_name="provisionedgroup",
            constraint=models.UniqueConstraint(
                condition=models.Q(("external_id", ""), _negated=True),
                fields=("organization", "external_id"),
                name="identity_external_id_is_one_group",
            ),
        ),
        migrations.AddConstraint(
            model_name="provisionedperson",
            constraint=models.UniqueConstraint(
                models.F("organization"),
                django.db.models.functions.text.Lower("user_name"),
                condition=models.Q(("deleted_at", None)),
                name="identity_user_name_is_one_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="provisionedperson",
            constraint=models.UniqueConstraint(
                condition=models.Q(("external_id", ""), _negated=True),
                fields=("organization", "external_id"),
                name="identity_external_id_is_one_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="groupmembership",
            constraint=models.UniqueConstraint(
                fields=("group", "person"), name="identity_member_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="scimtoken",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("expires_at__gt", models.F("created_at")),
                    (
                        "expires_at__lte",
                        django.db.models.expressions.CombinedExpression(
                            models.F("created_at"), "+", models.Value(datetime.timedelta(days=366))
                        ),
                    ),
                ),
                name="identity_scim_token_lives_a_year",
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
