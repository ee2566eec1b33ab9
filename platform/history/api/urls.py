"""Routes under /api/v1/ for histories."""

from __future__ import annotations

from django.urls import URLPattern, path

from history.api.views import NodeWeek, PreemptionHistory, UseHistory, WaitHistory

urlpatterns: list[URLPattern] = [
    path("history/use", UseHistory.as_view()),
    path("history/waits", WaitHistory.as_view()),
    path("history/week", NodeWeek.as_view()),
    path("history/preemptions", PreemptionHistory.as_view()),
]
