"""All routes of the product."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path

from portal import metrics, organization_list_views, organization_views, views

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/organizations", organization_views.Organizations.as_view()),
    path("api/v1/organizations/preview", organization_views.OrganizationPreview.as_view()),
    path("api/v1/organizations/summaries", organization_list_views.OrganizationSummaries.as_view()),
    path("api/v1/", include("tenants.api.urls")),
    path("api/v1/", include("identity.api.urls")),
    path("api/v1/", include("notices.api.urls")),
    path("api/v1/", include("maintenance.api.urls")),
    path("api/v1/", include("quotas.api.urls")),
    path("api/v1/", include("billing.api.urls")),
    path("api/v1/", include("bank.api.urls")),
    path("api/v1/", include("exports.api.urls")),
    path("api/v1/", include("budgets.api.urls")),
    path("api/v1/", include("adjustments.api.urls")),
    path("api/v1/", include("approvals.api.urls")),
    path("api/v1/", include("periods.api.urls")),
    path("api/v1/", include("chargeback.api.urls")),
    path("api/v1/", include("jobs.api.urls")),
    path("api/v1/", include("history.api.urls")),
    path("api/v1/", include("shares.api.urls")),
    path("api/v1/", include("treefile.api.urls")),
    path("api/v1/openapi.json", views.openapi),
    path("scim/v2/", include("identity.api.scim_urls")),
    path("healthz", views.healthz),
    path("readyz", views.readyz),
    path("metrics", metrics.metrics),
    # The frontend's page serves all other addresses, except those below these words.
    re_path(
        r"\A(?!(?:api|scim|static|assets|ws|metrics|admin)(?:/|\Z))(?P<path>.*)\Z", views.frontend
    ),
]

handler404 = "webapi.problems.not_found"
handler500 = "webapi.problems.server_error"
