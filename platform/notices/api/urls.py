"""Routes under /api/v1/ for notices."""

from __future__ import annotations

from django.urls import URLPattern, path

from notices.api.views import NoticeList, NoticeReading, NoticesReading, UnreadNotices

urlpatterns: list[URLPattern] = [
    path("notices", NoticeList.as_view()),
    path("notices/unread", UnreadNotices.as_view()),
    path("notices/read", NoticesReading.as_view()),
    path("notices/<uuid:notice_id>/read", NoticeReading.as_view()),
]
