"""Routes under /api/v1/ of the tree, its people and their rights."""

from __future__ import annotations

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
