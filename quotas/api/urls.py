"""Routes under /api/v1/ for quotas, priority classes and the fleet."""

from __future__ import annotations

from django.urls import URLPattern, path

from quotas.api.cluster_user_views import ClusterUserDetail, ClusterUserList
from quotas.api.connection_views import ClusterConnectionCheck, ConnectionCheck
from quotas.api.fleet_views import (
    ClusterDetail,
    ClusterKindList,
    ClusterList,
    PoolDetail,
    PoolList,
)
from quotas.api.node_views import (
    ClusterNodeDetail,
    ClusterNodeDrain,
    ClusterNodeList,
    ClusterNodeResume,
)
from quotas.api.planned_views import (
    PlannedChangeApply,
    PlannedChangeCancel,
    PlannedChangeDetail,
    PlannedChangeList,
)
from quotas.api.policy_views import (
    InstallationPolicyDetail,
    PolicyDetail,
    PriorityClassDetail,
    PriorityClassList,
)
from quotas.api.push_views import (
    AcceptedDifferenceDetail,
    AcceptedDifferenceList,
    QuotaPushDetail,
    QuotaPushList,
)
from quotas.api.second_person_views import SecondPersonPolicyDetail
from quotas.api.time_limit_views import TimeLimitDetail, TimeLimitList
from quotas.api.user_cap_views import UserCapDetail, UserCapList
from quotas.api.views import QuotaChanges, QuotaDetail, QuotaList

urlpatterns: list[URLPattern] = [
    path("quotas", QuotaList.as_view()),
    path("quotas/<uuid:quota_id>", QuotaDetail.as_view()),
    path("quotas/<uuid:quota_id>/changes", QuotaChanges.as_view()),
    path("quota-changes", PlannedChangeList.as_view()),
    path("quota-changes/<uuid:planned_id>", PlannedChangeDetail.as_view()),
    path("quota-changes/<uuid:planned_id>/apply", PlannedChangeApply.as_view()),
    path("quota-changes/<uuid:planned_id>/cancel", PlannedChangeCancel.as_view()),
    path("time-limits", TimeLimitList.as_view()),
    path("time-limits/<uuid:limit_id>", TimeLimitDetail.as_view()),
    path("user-caps", UserCapList.as_view()),
    path("user-caps/<uuid:cap_id>", UserCapDetail.as_view()),
    path("pools", PoolList.as_view()),
    path("pools/<uuid:pool_id>", PoolDetail.as_view()),
    path("cluster-kinds", ClusterKindList.as_view()),
    path("clusters", ClusterList.as_view()),
    path("clusters/check", ConnectionCheck.as_view()),
    path("clusters/<uuid:cluster_id>", ClusterDetail.as_view()),
    path("clusters/<uuid:cluster_id>/check", ClusterConnectionCheck.as_view()),
    path("clusters/<uuid:cluster_id>/users", ClusterUserList.as_view()),
    path("clusters/<uuid:cluster_id>/users/<uuid:mapping_id>", ClusterUserDetail.as_view()),
    path("clusters/<uuid:cluster_id>/quota-pushes", QuotaPushList.as_view()),
    path("clusters/<uuid:cluster_id>/quota-pushes/<uuid:push_id>", QuotaPushDetail.as_view()),
    path("clusters/<uuid:cluster_id>/accepted-differences", AcceptedDifferenceList.as_view()),
    path(
        "clusters/<uuid:cluster_id>/accepted-differences/<int:difference_id>",
        AcceptedDifferenceDetail.as_view(),
    ),
    path("nodes", ClusterNodeList.as_view()),
    path("nodes/<uuid:node_id>", ClusterNodeDetail.as_view()),
    path("nodes/<uuid:node_id>/drain", ClusterNodeDrain.as_view()),
    path("nodes/<uuid:node_id>/resume", ClusterNodeResume.as_view()),
    path("priority-classes", PriorityClassList.as_view()),
    path("priority-classes/<uuid:class_id>", PriorityClassDetail.as_view()),
    path("policy", InstallationPolicyDetail.as_view()),
    path("organizations/<uuid:organization_id>/policy", PolicyDetail.as_view()),
    path("organizations/<uuid:organization_id>/second-person", SecondPersonPolicyDetail.as_view()),
]
