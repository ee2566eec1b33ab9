"""Routes under /api/v1/ for sign-in by identity providers."""

from __future__ import annotations

from django.urls import URLPattern, path

from identity.api import device_views, scim_settings_views, sign_in_views, views

urlpatterns: list[URLPattern] = [
    path("device-logins", device_views.DeviceLoginList.as_view()),
    path("device-logins/token", device_views.DeviceLoginToken.as_view()),
    path("device-logins/<slug:user_code>", device_views.DeviceLoginDetail.as_view()),
    path("device-logins/<slug:user_code>/approve", device_views.DeviceLoginApproval.as_view()),
    path("device-logins/<slug:user_code>/refuse", device_views.DeviceLoginRefusal.as_view()),
    path("sign-in-options", sign_in_views.SignInOptions.as_view()),
    path("session/provider", sign_in_views.ProviderSignIn.as_view()),
    path("session/callback/<slug:organization_slug>", sign_in_views.ProviderCallback.as_view()),
    path(
        "organizations/<uuid:organization_id>/identity-provider",
        views.OrganizationIdentityProvider.as_view(),
    ),
    path(
        "organizations/<uuid:organization_id>/identity-provider/test",
        views.IdentityProviderTest.as_view(),
    ),
    path(
        "organizations/<uuid:organization_id>/sign-in-policy",
        views.OrganizationSignInPolicy.as_view(),
    ),
    path(
        "organizations/<uuid:organization_id>/scim", scim_settings_views.OrganizationScim.as_view()
    ),
    path(
        "organizations/<uuid:organization_id>/scim/tokens",
        scim_settings_views.ScimTokenList.as_view(),
    ),
    path("scim-tokens/<uuid:scim_token_id>", scim_settings_views.ScimTokenDetail.as_view()),
    path(
        "scim-tokens/<uuid:scim_token_id>/replace",
        scim_settings_views.ScimTokenReplacement.as_view(),
    ),
    path("organizations/<uuid:organization_id>/group-mappings", views.GroupMappingList.as_view()),
    path("group-mappings/<uuid:mapping_id>", views.GroupMappingDetail.as_view()),
]
