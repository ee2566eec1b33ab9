"""Routes under /api/v1/ for exports."""

from __future__ import annotations

from django.urls import URLPattern, path

from exports.api.audit_views import ChargeAuditList
from exports.api.delivery_views import (
    DeliveryList,
    DeliveryRepetition,
    DeliveryScheduleDetail,
    DeliveryScheduleList,
    DeliveryTargetList,
)
from exports.api.policy_views import ExportPolicyDetail
from exports.api.views import ExportDetail, ExportFile, ExportList, ExportRepetition

urlpatterns: list[URLPattern] = [
    path("charge-audits", ChargeAuditList.as_view()),
    path("deliveries", DeliveryList.as_view()),
    path("deliveries/<uuid:delivery_id>/repeat", DeliveryRepetition.as_view()),
    path("delivery-schedules", DeliveryScheduleList.as_view()),
    path("delivery-schedules/<uuid:delivery_schedule_id>", DeliveryScheduleDetail.as_view()),
    path("delivery-targets", DeliveryTargetList.as_view()),
    path("exports", ExportList.as_view()),
    path("exports/<uuid:export_id>", ExportDetail.as_view()),
    path("exports/<uuid:export_id>/again", ExportRepetition.as_view()),
    path("exports/<uuid:export_id>/file", ExportFile.as_view()),
    path("organizations/<uuid:organization_id>/export-policy", ExportPolicyDetail.as_view()),
]
