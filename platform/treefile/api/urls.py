"""Routes under /api/v1/ for tree files."""

from __future__ import annotations

from django.urls import URLPattern, path

from treefile.api.views import TreeExport, TreeImport

urlpatterns: list[URLPattern] = [
    path("tree/<uuid:tree_node_id>/export", TreeExport.as_view()),
    path("tree/<uuid:tree_node_id>/import", TreeImport.as_view()),
]
