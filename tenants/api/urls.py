"""Routes under /api/v1/ for the tree, its people and their rights."""

from __future__ import annotations

from django.urls import URLPattern, path

from tenants.api import (
    audit_views,
    factor_views,
    invitation_views,
    password_views,
    role_views,
    service_account_views,
    session_views,
    sign_in_views,
    token_views,
    views,
)

urlpatterns: list[URLPattern] = [
    path("session", sign_in_views.SessionView.as_view()),
    path("session/second-factor", sign_in_views.SecondStepView.as_view()),
    path("session/security-key", sign_in_views.KeyChallengeView.as_view()),
    path("session/security-key/confirm", sign_in_views.KeyStepView.as_view()),
    path("second-factors", factor_views.SecondFactorsView.as_view()),
    path("second-factors/authenticator", factor_views.AuthenticatorView.as_view()),
    path("second-factors/authenticator/confirm", factor_views.AuthenticatorConfirmation.as_view()),
    path("second-factors/security-key", factor_views.SecurityKeyView.as_view()),
    path("second-factors/security-key/confirm", factor_views.SecurityKeyConfirmation.as_view()),
    path("second-factors/recovery-codes", factor_views.RecoveryCodesView.as_view()),
    path("second-factors/<uuid:factor_id>/remove", factor_views.SecondFactorRemoval.as_view()),
    path("sessions", session_views.BrowserSessionList.as_view()),
    path("sessions/end", session_views.BrowserSessionsEnd.as_view()),
    path("sessions/<uuid:session_id>", session_views.BrowserSessionDetail.as_view()),
    path("installation", views.InstallationView.as_view()),
    path("organizations/<uuid:node_id>", views.OrganizationDetail.as_view()),
    path("departments", views.DepartmentList.as_view()),
    path("departments/<uuid:node_id>", views.DepartmentDetail.as_view()),
    path("teams", views.TeamList.as_view()),
    path("teams/<uuid:node_id>", views.TeamDetail.as_view()),
    path("users", views.UserList.as_view()),
    path("users/<uuid:user_id>", views.UserDetail.as_view()),
    path("roles", role_views.RoleList.as_view()),
    path("role-grants", role_views.RoleGrantList.as_view()),
    path("role-grants/<uuid:grant_id>", role_views.RoleGrantDetail.as_view()),
    path("tree/<uuid:tree_node_id>/invitations", invitation_views.InvitationList.as_view()),
    path(
        "tree/<uuid:tree_node_id>/service-accounts",
        service_account_views.ServiceAccountList.as_view(),
    ),
    path("invitations/<uuid:invitation_id>", invitation_views.InvitationDetail.as_view()),
    path("invitations/<uuid:invitation_id>/resend", invitation_views.InvitationResend.as_view()),
    path("users/<uuid:user_id>/password-link", password_views.UserPasswordLink.as_view()),
    path("users/<uuid:user_id>/second-factors/reset", factor_views.SecondFactorsReset.as_view()),
    path("password", password_views.PasswordView.as_view()),
    path("password-links/use", password_views.PasswordLinkUse.as_view()),
    path("tokens", token_views.AccessTokenList.as_view()),
    path("tokens/<uuid:token_id>", token_views.AccessTokenDetail.as_view()),
    path("tokens/<uuid:token_id>/rotate", token_views.AccessTokenRotation.as_view()),
    path("audit-events", audit_views.AuditEventList.as_view()),
]
