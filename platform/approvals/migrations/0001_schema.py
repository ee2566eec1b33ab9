"""Requests for changes, counter-offers and comments."""

import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
CREATE FUNCTION requests_refuse_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are decided once and stay', TG_TABLE_NAME
        USING ERRCODE = 'check_violation';
END
$$;
CREATE TRIGGER request_is_decided_once
    BEFORE UPDATE ON approvals_changerequest
    FOR EACH ROW WHEN (
        OLD.status NOT IN ('pending', 'countered')
        OR (OLD.id, OLD.kind, OLD.organization_id, OLD.node_id, OLD.pool_id, OLD.lender_id,
            OLD.target_id, OLD.target, OLD.role, OLD.amount, OLD.unit, OLD.until, OLD.reason,
            OLD.asked_by_id, OLD.asked_at, OLD.expires_at)
           IS DISTINCT FROM
           (NEW.id, NEW.kind, NEW.organization_id, NEW.node_id, NEW.pool_id, NEW.lender_id,
            NEW.target_id, NEW.target, NEW.role, NEW.amount, NEW.unit, NEW.until, NEW.reason,
            NEW.asked_by_id, NEW.asked_at, NEW.expires_at)
    ) EXECUTE FUNCTION requests_refuse_changes();
CREATE TRIGGER request_stays
    BEFORE DELETE ON approvals_changerequest
    FOR EACH ROW EXECUTE FUNCTION requests_refuse_changes();

-- An approved change was applied by the person who decided the request, and nobody else.
CREATE FUNCTION request_follows_its_decision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.planned_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM quotas_plannedchange p
        WHERE p.id = NEW.planned_id AND p.decided_by_id = NEW.decided_by_id
            AND p.applied_at IS NOT NULL
    ) THEN
        RAISE EXCEPTION 'the planned change of a request is applied by the person who decided it'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.open_offer IS NOT NULL AND NEW.open_offer IS DISTINCT FROM (
        SELECT max(o.number) FROM approvals_counteroffer o WHERE o.request_id = NEW.id
    ) THEN
        RAISE EXCEPTION 'only the last counter-offer waits for an answer'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER request_follows_its_decision
    BEFORE INSERT OR UPDATE ON approvals_changerequest
    FOR EACH ROW EXECUTE FUNCTION request_follows_its_decision();

CREATE FUNCTION offer_is_the_next() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM approvals_changerequest r
        WHERE r.id = NEW.request_id AND r.status IN ('pending', 'countered')
            AND r.asked_by_id <> NEW.made_by_id
            AND NEW.number = 1 + (
                SELECT count(*) FROM approvals_counteroffer o WHERE o.request_id = r.id
            )
    ) THEN
        RAISE EXCEPTION 'a counter-offer is the next one of an open request, by another person'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER offer_is_the_next
    BEFORE INSERT ON approvals_counteroffer
    FOR EACH ROW EXECUTE FUNCTION offer_is_the_next();
CREATE TRIGGER offer_stays
    BEFORE UPDATE OR DELETE ON approvals_counteroffer
    FOR EACH ROW EXECUTE FUNCTION requests_refuse_changes();
CREATE TRIGGER comment_stays
    BEFORE UPDATE OR DELETE ON approvals_requestcomment
    FOR EACH ROW EXECUTE FUNCTION requests_refuse_changes();
"""
_NO_RULES = """
DROP TRIGGER comment_stays ON approvals_requestcomment;
DROP TRIGGER offer_stays ON approvals_counteroffer;
DROP TRIGGER offer_is_the_next ON approvals_counteroffer;
DROP FUNCTION offer_is_the_next();
DROP TRIGGER request_follows_its_decision ON approvals_changerequest;
DROP FUNCTION request_follows_its_decision();
DROP TRIGGER request_stays ON approvals_changerequest;
DROP TRIGGER request_is_decided_once ON approvals_changerequest;
DROP FUNCTION requests_refuse_changes();
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("clusters", "0003_jobs_may_reach_the_portal"),
        ("quotas", "0004_users_of_teams_have_caps"),
        ("tenants", "0002_archivings_are_kept"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ChangeRequest",
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
                            ("guarantee", "Guarantee"),
                            ("borrow_limit", "Borrow Limit"),
                            ("loan", "Loan"),
                            ("budget", "Budget"),
                            ("class_cap", "Class Cap"),
                            ("role", "Role"),
                        ],
                        max_length=12,
                    ),
                ),
                ("target_id", models.UUIDField(null=True)),
                ("target", models.CharField(blank=True, max_length=100)),
                ("role", models.CharField(blank=True, max_length=32)),
                ("amount", models.BigIntegerField(null=True)),
                ("unit", models.CharField(blank=True, max_length=9)),
                ("until", models.DateTimeField(null=True)),
                ("reason", models.CharField(max_length=500)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("countered", "Countered"),
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("withdrawn", "Withdrawn"),
                            ("expired", "Expired"),
                        ],
                        default="pending",
                        max_length=9,
                    ),
                ),
                ("asked_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("open_offer", models.PositiveSmallIntegerField(null=True)),
                ("decided_at", models.DateTimeField(null=True)),
                ("note", models.CharField(blank=True, max_length=500)),
                ("version", models.IntegerField(default=1)),
                (
                    "asked_by",
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
                    "lender",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
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
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "planned",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="quotas.plannedchange",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CounterOffer",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("number", models.PositiveSmallIntegerField()),
                ("amount", models.BigIntegerField()),
                ("until", models.DateTimeField(null=True)),
                ("sources", models.JSONField(default=list)),
                ("base", models.JSONField()),
                ("note", models.CharField(blank=True, max_length=500)),
                ("made_at", models.DateTimeField()),
                (
                    "made_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "request",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="offers",
                        to="approvals.changerequest",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RequestComment",
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
                ("text", models.CharField(max_length=500)),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "request",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="comments",
                        to="approvals.changerequest",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="changerequest",
            index=models.Index(
                condition=models.Q(("status__in", ("pending", "countered"))),
                fields=["expires_at"],
                name="request_by_expiry",
            ),
        ),
        migrations.AddIndex(
            model_name="changerequest",
            index=models.Index(fields=["organization", "status"], name="request_by_status"),
        ),
        migrations.AddIndex(
            model_name="changerequest",
            index=models.Index(fields=["asked_by"], name="request_by_person"),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(("reason", ""), _negated=True), name="request_has_a_reason"
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        ["pending", "countered", "approved", "rejected", "withdrawn", "expired"],
                    )
                ),
                name="request_status_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("kind__in", ("guarantee", "borrow_limit")),
                        ("lender", None),
                        ("role", ""),
                        ("pool__isnull", False),
                        ("target", ""),
                        ("target_id", None),
                        ("unit", "mgpu"),
                    ),
                    models.Q(
                        ("kind", "loan"),
                        ("lender__isnull", False),
                        ("role", ""),
                        ("until__isnull", False),
                        ("pool__isnull", False),
                        ("target", ""),
                        ("target_id", None),
                        ("unit", "mgpu"),
                    ),
                    models.Q(
                        ("kind", "budget"),
                        ("role", ""),
                        ("unit__in", ("gpu_hours", "credits", "money")),
                        ("lender", None),
                        ("pool", None),
                        ("target_id__isnull", False),
                        ("until", None),
                        models.Q(("target", ""), _negated=True),
                    ),
                    models.Q(
                        ("kind", "class_cap"),
                        ("role", ""),
                        ("unit", "mgpu"),
                        ("lender", None),
                        ("pool", None),
                        ("target_id__isnull", False),
                        ("until", None),
                        models.Q(("target", ""), _negated=True),
                    ),
                    models.Q(
                        ("amount", None),
                        ("kind", "role"),
                        ("lender", None),
                        ("pool", None),
                        ("target_id", None),
                        ("until", None),
                        ("target", ""),
                        ("unit", ""),
                        models.Q(("role", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="request_names_what_its_kind_changes",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind", "role"),
                    models.Q(
                        ("amount__gte", 1),
                        ("amount__isnull", False),
                        ("amount__lte", 1000000000000000000),
                    ),
                    _connector="OR",
                ),
                name="request_is_for_more",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lender", None),
                    models.Q(("lender", models.F("node")), _negated=True),
                    _connector="OR",
                ),
                name="loan_is_between_two_nodes",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("expires_at__gt", models.F("asked_at")),
                    models.Q(("until", None), ("until__gt", models.F("asked_at")), _connector="OR"),
                ),
                name="request_ends_after_it_began",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("open_offer__isnull", False), ("status", "countered")),
                    models.Q(
                        models.Q(("status", "countered"), _negated=True), ("open_offer", None)
                    ),
                    _connector="OR",
                ),
                name="countered_request_has_an_offer",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("decided_at", None),
                        ("decided_by", None),
                        ("status__in", ("pending", "countered")),
                    ),
                    models.Q(
                        ("decided_at__isnull", False), ("decided_by", None), ("status", "expired")
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("status__in", ("approved", "rejected")),
                        ("decided_by__isnull", False),
                        models.Q(("decided_by", models.F("asked_by")), _negated=True),
                    ),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by__isnull", False),
                        ("status", "withdrawn"),
                        ("decided_by", models.F("asked_by")),
                    ),
                    _connector="OR",
                ),
                name="request_is_decided_by_another_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status", "rejected"), _negated=True),
                    models.Q(("note", ""), _negated=True),
                    _connector="OR",
                ),
                name="rejected_request_has_a_note",
            ),
        ),
        migrations.AddConstraint(
            model_name="changerequest",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("kind__in", ("guarantee", "borrow_limit", "loan")),
                        ("planned__isnull", False),
                        ("status", "approved"),
                    ),
                    models.Q(
                        models.Q(
                            ("status", "approved"),
                            ("kind__in", ("guarantee", "borrow_limit", "loan")),
                            _negated=True,
                        ),
                        ("planned", None),
                    ),
                    _connector="OR",
                ),
                name="approved_request_has_a_planned_change",
            ),
        ),
        migrations.AddConstraint(
            model_name="counteroffer",
            constraint=models.UniqueConstraint(
                fields=("request", "number"), name="offer_number_is_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="counteroffer",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount__gte", 1), ("amount__lte", 1000000000000000000)),
                name="offer_is_for_more",
            ),
        ),
        migrations.AddConstraint(
            model_name="requestcomment",
            constraint=models.CheckConstraint(
                condition=models.Q(("text", ""), _negated=True), name="comment_has_a_text"
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
