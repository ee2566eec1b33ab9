"""Pools, clusters, nodes, and capacity over time."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

#: What the database keeps beyond constraints.
_RULES = """
-- A cluster is archived only once none of its nodes takes work.
CREATE FUNCTION archive_no_cluster_whose_nodes_take_work() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM clusters_clusternode WHERE cluster_id = NEW.id AND is_schedulable
    ) THEN
        RAISE EXCEPTION 'no node of an archived cluster takes work'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'node_of_an_archived_cluster_takes_no_work';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER node_of_an_archived_cluster_takes_no_work
    BEFORE INSERT OR UPDATE OF archived_at ON clusters_cluster
    FOR EACH ROW WHEN ((new.archived_at IS NOT NULL))
    EXECUTE FUNCTION archive_no_cluster_whose_nodes_take_work();

-- A pool is archived only once none of its nodes takes work.
CREATE FUNCTION archive_no_pool_whose_nodes_take_work() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM clusters_clusternode WHERE pool_id = NEW.id AND is_schedulable
    ) THEN
        RAISE EXCEPTION 'no node of an archived pool takes work'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'node_of_an_archived_pool_takes_no_work';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER node_of_an_archived_pool_takes_no_work
    BEFORE INSERT OR UPDATE OF archived_at ON clusters_pool
    FOR EACH ROW WHEN ((new.archived_at IS NOT NULL))
    EXECUTE FUNCTION archive_no_pool_whose_nodes_take_work();

-- No node of an archived cluster takes work.
CREATE FUNCTION refuse_work_for_archived_cluster() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM clusters_cluster
        WHERE id = NEW.cluster_id AND archived_at IS NOT NULL
    ) THEN
        RAISE EXCEPTION 'no node of an archived cluster takes work'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'node_of_an_archived_cluster_takes_no_work';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER node_of_an_archived_cluster_takes_no_work
    BEFORE INSERT OR UPDATE OF is_schedulable, cluster_id ON clusters_clusternode
    FOR EACH ROW WHEN (new.is_schedulable)
    EXECUTE FUNCTION refuse_work_for_archived_cluster();

-- No node of an archived pool takes work.
CREATE FUNCTION refuse_work_for_archived_pool() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM clusters_pool
        WHERE id = NEW.pool_id AND archived_at IS NOT NULL
    ) THEN
        RAISE EXCEPTION 'no node of an archived pool takes work'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'node_of_an_archived_pool_takes_no_work';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER node_of_an_archived_pool_takes_no_work
    BEFORE INSERT OR UPDATE OF is_schedulable, pool_id ON clusters_clusternode
    FOR EACH ROW WHEN (new.is_schedulable)
    EXECUTE FUNCTION refuse_work_for_archived_pool();
"""

_NO_RULES = """
DROP TRIGGER node_of_an_archived_pool_takes_no_work ON clusters_clusternode;
DROP FUNCTION refuse_work_for_archived_pool();
DROP TRIGGER node_of_an_archived_cluster_takes_no_work ON clusters_clusternode;
DROP FUNCTION refuse_work_for_archived_cluster();
DROP TRIGGER node_of_an_archived_pool_takes_no_work ON clusters_pool;
DROP FUNCTION archive_no_pool_whose_nodes_take_work();
DROP TRIGGER node_of_an_archived_cluster_takes_no_work ON clusters_cluster;
DROP FUNCTION archive_no_cluster_whose_nodes_take_work();
"""


class Migration(migrations.Migration):
    initial = True

    # An installation of the last unreleased version has all of this.
    replaces = [
        ("clusters", "0001_initial"),
        ("clusters", "0002_cluster_keeps_its_own_time"),
        ("clusters", "0003_what_is_held_outside"),
        ("clusters", "0004_nodes_are_asked"),
        ("clusters", "0005_identity_is_remembered"),
        ("clusters", "0006_nodes_are_emptied"),
        ("clusters", "0007_clusters_limit_time"),
        ("clusters", "0008_nodes_stand_in_domains"),
        ("clusters", "0009_nodes_have_cpu_and_memory"),
        ("clusters", "0010_pools_of_cpu_cores"),
        ("clusters", "0011_jobs_are_isolated"),
        ("clusters", "0012_clusters_are_archived"),
        ("clusters", "0013_pools_are_archived"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Cluster",
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
                ("name", models.CharField(max_length=63, unique=True)),
                ("kind", models.CharField(max_length=16)),
                ("options", models.JSONField(default=dict)),
                ("is_enabled", models.BooleanField(default=True)),
                ("seen_at", models.DateTimeField(null=True)),
                ("observed_at", models.DateTimeField(null=True)),
                ("failing_since", models.DateTimeField(null=True)),
                ("message", models.TextField(blank=True)),
                ("outside", models.JSONField(default=dict)),
                ("api_version", models.CharField(blank=True, max_length=16)),
                ("identity", models.JSONField(default=dict)),
                ("time_limits", models.JSONField(default=dict)),
                ("isolation", models.CharField(blank=True, max_length=16)),
                ("isolation_reason", models.CharField(blank=True, max_length=500)),
                ("archived_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("archived_at", None), ("is_enabled", False), _connector="OR"
                        ),
                        name="cluster_that_is_archived_is_disabled",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("name__regex", "\\A[a-z0-9]([a-z0-9-]*[a-z0-9])?\\Z")),
                        name="cluster_name_is_plain",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Pool",
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
                ("name", models.CharField(max_length=63, unique=True)),
                ("description", models.CharField(blank=True, max_length=200)),
                ("weight", models.PositiveIntegerField(default=1000)),
                (
                    "device",
                    models.CharField(
                        choices=[("gpu", "GPUs"), ("cpu", "cores")], default="gpu", max_length=3
                    ),
                ),
                ("archived_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("device__in", ["gpu", "cpu"])),
                        name="pool_has_known_devices",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("name__regex", "\\A[a-z0-9]([a-z0-9.-]*[a-z0-9])?\\Z")),
                        name="pool_name_is_plain",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("weight__gte", 1)), name="pool_is_worth_something"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="NodeRequest",
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
                ("node", models.CharField(max_length=253)),
                (
                    "action",
                    models.CharField(
                        choices=[("drain", "Drain"), ("resume", "Resume")], max_length=6
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("evict_grace_s", models.PositiveIntegerField(null=True)),
                ("requested_by", models.CharField(max_length=127)),
                ("requested_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("done", "Done"),
                            ("refused", "Refused"),
                            ("replaced", "Replaced"),
                            ("given_up", "Given Up"),
                        ],
                        default="pending",
                        max_length=8,
                    ),
                ),
                ("answered_at", models.DateTimeField(null=True)),
                ("message", models.TextField(blank=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.cluster",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["cluster", "node", "-requested_at"], name="node_request_latest"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "pending")),
                        fields=("cluster", "node"),
                        name="node_waits_for_one_request",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("answered_at", None), ("state", "pending")),
                            models.Q(
                                models.Q(("state", "pending"), _negated=True),
                                ("answered_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="node_request_is_answered_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("evict_grace_s", None),
                            models.Q(
                                ("action", "drain"),
                                ("evict_grace_s__gte", 1),
                                ("evict_grace_s__lte", 3600),
                            ),
                            _connector="OR",
                        ),
                        name="only_a_drain_evicts_within_an_hour",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ClusterNode",
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
                ("name", models.CharField(max_length=253)),
                ("capacity_mgpu", models.PositiveBigIntegerField()),
                ("outside_mgpu", models.PositiveBigIntegerField(default=0)),
                ("is_schedulable", models.BooleanField()),
                ("state", models.CharField(max_length=100)),
                ("reason", models.CharField(blank=True, max_length=300)),
                ("features", models.JSONField(default=list)),
                ("domains", models.JSONField(default=dict)),
                ("cpu_milli", models.PositiveBigIntegerField(null=True)),
                ("memory_mib", models.PositiveBigIntegerField(null=True)),
                ("cpu_milli_per_gpu", models.PositiveBigIntegerField(default=0)),
                ("memory_mib_per_gpu", models.PositiveBigIntegerField(default=0)),
                ("seen_at", models.DateTimeField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="nodes",
                        to="clusters.cluster",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="nodes",
                        to="clusters.pool",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("cluster", "name", "pool"), name="cluster_node_once_per_pool"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CapacitySegment",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("capacity_mgpu", models.PositiveBigIntegerField()),
                ("outside_mgpu", models.PositiveBigIntegerField(default=0)),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField(null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.cluster",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
            ],
            options={
                "constraints": [
                    django.contrib.postgres.constraints.ExclusionConstraint(
                        expressions=[
                            ("cluster", "="),
                            ("pool", "="),
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
                        name="capacity_known_once_at_a_time",
                    )
                ],
            },
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]
