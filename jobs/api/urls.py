"""Routes under /api/v1/ of jobs."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.api import cycle_views, quarantine_views, views
from jobs.api.alternative_views import JobAlternatives
from jobs.api.archive_views import (
    ClusterArchive,
    ClusterRestore,
    NodeArchive,
    NodeDetail,
    NodeRestore,
    PoolArchive,
    PoolRestore,
    UserDeactivate,
)
from jobs.api.checkpoint_views import JobCheckpoints
from jobs.api.estimate_views import JobEstimate
from jobs.api.log_views import JobLogSummary
from jobs.api.move_views import NodeMove
from jobs.api.placement_views import ClusterPlacementList
from jobs.api.quota_preview_views import QuotaChangePreview
from jobs.api.reason_views import JobReasons
from jobs.api.scheduler_views import Scheduler
from jobs.api.today_views import TodayView

urlpatterns: list[URLPattern] = [
    path("jobs", views.JobList.as_view()),
    path("jobs/<uuid:job_id>", views.JobDetail.as_view()),
    path("jobs/<uuid:job_id>/explanation", views.JobExplanation.as_view()),
    path("jobs/<uuid:job_id>/reasons", JobReasons.as_view()),
    path("jobs/<uuid:job_id>/estimate", JobEstimate.as_view()),
    path("jobs/<uuid:job_id>/alternatives", JobAlternatives.as_view()),
    path("jobs/<uuid:job_id>/attempts", views.JobAttempts.as_view()),
    path("jobs/<uuid:job_id>/history", views.JobHistory.as_view()),
    path("jobs/<uuid:job_id>/decisions", cycle_views.JobDecisions.as_view()),
    path("jobs/<uuid:job_id>/logs", views.JobLogs.as_view()),
    path("jobs/<uuid:job_id>/log-summary", JobLogSummary.as_view()),
    path("jobs/<uuid:job_id>/checkpoints", JobCheckpoints.as_view()),
    path("jobs/<uuid:job_id>/cancel", views.JobCancel.as_view()),
    path("jobs/<uuid:job_id>/hold", views.JobHold.as_view()),
    path("jobs/<uuid:job_id>/release", views.JobRelease.as_view()),
    path("job-arrays/<uuid:array_id>", views.JobArrayDetail.as_view()),
    path("job-arrays/<uuid:array_id>/cancel", views.JobArrayCancel.as_view()),
    path("clusters/<uuid:cluster_id>/placements", ClusterPlacementList.as_view()),
    path("tree/<uuid:tree_node_id>", NodeDetail.as_view()),
    path("tree/<uuid:tree_node_id>/archive", NodeArchive.as_view()),
    path("tree/<uuid:tree_node_id>/restore", NodeRestore.as_view()),
    path("tree/<uuid:tree_node_id>/move", NodeMove.as_view()),
    path("clusters/<uuid:cluster_id>/archive", ClusterArchive.as_view()),
    path("clusters/<uuid:cluster_id>/restore", ClusterRestore.as_view()),
    path("pools/<uuid:pool_id>/archive", PoolArchive.as_view()),
    path("pools/<uuid:pool_id>/restore", PoolRestore.as_view()),
    path("users/<uuid:user_id>/deactivate", UserDeactivate.as_view()),
    path("decisions", cycle_views.DecisionList.as_view()),
    path("cycles", cycle_views.CycleList.as_view()),
    path("cycles/<uuid:cycle_id>", cycle_views.CycleDetail.as_view()),
    path("quota-changes/<uuid:planned_id>/preview", QuotaChangePreview.as_view()),
    path("scheduler", Scheduler.as_view()),
    path("today", TodayView.as_view()),
    path("quarantine", quarantine_views.Quarantine.as_view()),
]
