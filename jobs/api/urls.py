"""Routes under /api/v1/ of jobs."""

from __future__ import annotations

from django.urls import URLPattern, path

from jobs.api import cycles, jobs, quarantine
from jobs.api.alternatives import JobAlternatives
from jobs.api.archiving import (
    ClusterArchive,
    ClusterRestore,
    NodeArchive,
    NodeDetail,
    NodeRestore,
    PoolArchive,
    PoolRestore,
    UserDeactivate,
)
from jobs.api.arrays import JobArrayCancel, JobArrayDetail
from jobs.api.attempts import JobAttemptCosts, JobAttempts
from jobs.api.checkpoints import JobCheckpoints
from jobs.api.estimates import JobEstimate
from jobs.api.extending import JobExtend, JobExtensionPlan
from jobs.api.files import JobFileDownload, JobFiles
from jobs.api.history import JobHistory
from jobs.api.job_actions import JobActionPreview, JobActions
from jobs.api.job_requests import StoredJobRequest
from jobs.api.logs import JobLogDownload, JobLogs, JobLogSearch, JobLogSummary
from jobs.api.maintenance import MaintenanceJobs, MaintenanceList
from jobs.api.members import MemberList, MemberTotals
from jobs.api.metrics import JobMetrics
from jobs.api.moving import NodeMove
from jobs.api.placements import ClusterPlacementList
from jobs.api.quota_preview import ChangeRequestPreview, QuotaChangePreview
from jobs.api.reasons import JobReasons
from jobs.api.saved_views import SavedViewDetail, SavedViewList
from jobs.api.scheduler import Scheduler
from jobs.api.schedules import ScheduleDetail, ScheduleList, ScheduleRunList
from jobs.api.templates import JobTemplateDetail, JobTemplateList
from jobs.api.today import TodayView
from jobs.api.unused import UnusedResources

urlpatterns: list[URLPattern] = [
    path("jobs", jobs.JobList.as_view()),
    path("jobs/export", jobs.JobExport.as_view()),
    path("jobs/<uuid:job_id>", jobs.JobDetail.as_view()),
    path("jobs/<uuid:job_id>/request", StoredJobRequest.as_view()),
    path("jobs/<uuid:job_id>/explanation", jobs.JobExplanation.as_view()),
    path("jobs/<uuid:job_id>/reasons", JobReasons.as_view()),
    path("jobs/<uuid:job_id>/estimate", JobEstimate.as_view()),
    path("jobs/<uuid:job_id>/alternatives", JobAlternatives.as_view()),
    path("jobs/<uuid:job_id>/attempts", JobAttempts.as_view()),
    path("jobs/<uuid:job_id>/attempt-costs", JobAttemptCosts.as_view()),
    path("jobs/<uuid:job_id>/history", JobHistory.as_view()),
    path("jobs/<uuid:job_id>/decisions", cycles.JobDecisions.as_view()),
    path("jobs/<uuid:job_id>/logs", JobLogs.as_view()),
    path("jobs/<uuid:job_id>/logs/download", JobLogDownload.as_view()),
    path("jobs/<uuid:job_id>/logs/search", JobLogSearch.as_view()),
    path("jobs/<uuid:job_id>/log-summary", JobLogSummary.as_view()),
    path("jobs/<uuid:job_id>/files", JobFiles.as_view()),
    path("jobs/<uuid:job_id>/files/download", JobFileDownload.as_view()),
    path("jobs/<uuid:job_id>/checkpoints", JobCheckpoints.as_view()),
    path("jobs/<uuid:job_id>/metrics", JobMetrics.as_view()),
    path("jobs/<uuid:job_id>/cancel", jobs.JobCancel.as_view()),
    path("jobs/<uuid:job_id>/requeue", jobs.JobRequeue.as_view()),
    path("jobs/<uuid:job_id>/extend", JobExtend.as_view()),
    path("jobs/<uuid:job_id>/extension-plan", JobExtensionPlan.as_view()),
    path("jobs/<uuid:job_id>/hold", jobs.JobHold.as_view()),
    path("jobs/<uuid:job_id>/release", jobs.JobRelease.as_view()),
    path("job-actions", JobActions.as_view()),
    path("job-actions/preview", JobActionPreview.as_view()),
    path("job-arrays/<uuid:array_id>", JobArrayDetail.as_view()),
    path("job-arrays/<uuid:array_id>/cancel", JobArrayCancel.as_view()),
    path("job-views", SavedViewList.as_view()),
    path("job-views/<uuid:view_id>", SavedViewDetail.as_view()),
    path("job-templates", JobTemplateList.as_view()),
    path("job-templates/<uuid:template_id>", JobTemplateDetail.as_view()),
    path("schedules", ScheduleList.as_view()),
    path("schedules/<uuid:schedule_id>", ScheduleDetail.as_view()),
    path("schedules/<uuid:schedule_id>/runs", ScheduleRunList.as_view()),
    path("clusters/<uuid:cluster_id>/placements", ClusterPlacementList.as_view()),
    path("maintenance-windows", MaintenanceList.as_view()),
    path("maintenance-windows/<uuid:maintenance_id>/jobs", MaintenanceJobs.as_view()),
    path("tree/<uuid:tree_node_id>", NodeDetail.as_view()),
    path("tree/<uuid:tree_node_id>/archive", NodeArchive.as_view()),
    path("tree/<uuid:tree_node_id>/restore", NodeRestore.as_view()),
    path("tree/<uuid:tree_node_id>/move", NodeMove.as_view()),
    path("tree/<uuid:tree_node_id>/members", MemberList.as_view()),
    path("tree/<uuid:tree_node_id>/member-totals", MemberTotals.as_view()),
    path("clusters/<uuid:cluster_id>/archive", ClusterArchive.as_view()),
    path("clusters/<uuid:cluster_id>/restore", ClusterRestore.as_view()),
    path("pools/<uuid:pool_id>/archive", PoolArchive.as_view()),
    path("pools/<uuid:pool_id>/restore", PoolRestore.as_view()),
    path("users/<uuid:user_id>/deactivate", UserDeactivate.as_view()),
    path("decisions", cycles.DecisionList.as_view()),
    path("cycles", cycles.CycleList.as_view()),
    path("cycles/<uuid:cycle_id>", cycles.CycleDetail.as_view()),
    path("quota-changes/<uuid:planned_id>/preview", QuotaChangePreview.as_view()),
    path("requests/<uuid:request_id>/preview", ChangeRequestPreview.as_view()),
    path("scheduler", Scheduler.as_view()),
    path("today", TodayView.as_view()),
    path("unused-resources", UnusedResources.as_view()),
    path("quarantine", quarantine.Quarantine.as_view()),
]
