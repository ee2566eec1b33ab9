"""Routes under /api/v1/ for the tree, its people and their rights."""

from __future__ import annotations

from django.urls import URLPattern, path

from tenants.api import audit_views, password_views, token_views, views

urlpatterns: list[URLPattern] = [
    path("session", views.SessionView.as_view()),
    path("installation", views.InstallationView.as_view()),
    path("organizations/<uuid:node_id>", views.OrganizationDetail.as_view()),
    path("departments", views.DepartmentList.as_view()),
    path("departments/<uuid:node_id>", views.DepartmentDetail.as_view()),
    path("teams", views.TeamList.as_view()),
    path("teams/<uuid:node_id>", views.TeamDetail.as_view()),
    path("users", views.UserList.as_view()),
    path("users/<uuid:user_id>", views.UserDetail.as_view()),
    path("role-grants", views.RoleGrantList.as_view()),
    path("role-grants/<uuid:grant_id>", views.RoleGrantDetail.as_view()),
    path("users/<uuid:user_id>/password-link", password_views.UserPasswordLink.as_view()),
    path("password", password_views.PasswordView.as_view()),
    path("password-links/use", password_views.PasswordLinkUse.as_view()),
    path("tokens", token_views.AccessTokenList.as_view()),
    path("tokens/<uuid:token_id>", token_views.AccessTokenDetail.as_view()),
    path("tokens/<uuid:token_id>/rotate", token_views.AccessTokenRotation.as_view()),
    path("audit-events", audit_views.AuditEventList.as_view()),
]
