"""Routes under /api/v1/ for notices."""

from __future__ import annotations

from django.urls import URLPattern, path

from notices.api.announcement_views import AnnouncementDetail, AnnouncementList
from notices.api.preference_views import MailList, NoticePreferences
from notices.api.views import NoticeList, NoticeReading, NoticesReading, UnreadNotices
from notices.api.webhook_views import (
    WebhookDeliveryList,
    WebhookDetail,
    WebhookList,
    WebhookReplay,
    WebhookSecret,
    WebhookTest,
)

urlpatterns: list[URLPattern] = [
    path("notices", NoticeList.as_view()),
    path("notices/unread", UnreadNotices.as_view()),
    path("notices/read", NoticesReading.as_view()),
    path("notices/preferences", NoticePreferences.as_view()),
    path("notices/mails", MailList.as_view()),
    path("notices/<uuid:notice_id>/read", NoticeReading.as_view()),
    path("announcements", AnnouncementList.as_view()),
    path("announcements/<uuid:announcement_id>", AnnouncementDetail.as_view()),
    path("webhooks", WebhookList.as_view()),
    path("webhooks/<uuid:webhook_id>", WebhookDetail.as_view()),
    path("webhooks/<uuid:webhook_id>/secret", WebhookSecret.as_view()),
    path("webhooks/<uuid:webhook_id>/test", WebhookTest.as_view()),
    path("webhooks/<uuid:webhook_id>/deliveries", WebhookDeliveryList.as_view()),
    path("webhook-deliveries/<uuid:webhook_delivery_id>/replay", WebhookReplay.as_view()),
]
