"""Routes under /scim/v2/."""

from __future__ import annotations

from django.urls import URLPattern, path, re_path

from identity.api import scim_views as views

urlpatterns: list[URLPattern] = [
    path("ServiceProviderConfig", views.ServiceProviderConfigView.as_view()),
    path("ResourceTypes", views.ResourceTypes.as_view()),
    path("ResourceTypes/<str:type_id>", views.ResourceTypeDetail.as_view()),
    path("Schemas", views.Schemas.as_view()),
    path("Schemas/<str:schema_id>", views.SchemaDetail.as_view()),
    path("Users", views.Users.as_view()),
    path("Users/<uuid:person_id>", views.UserDetail.as_view()),
    path("Groups", views.Groups.as_view()),
    path("Groups/<uuid:group_id>", views.GroupDetail.as_view()),
    path("Bulk", views.NotOffered.as_view()),
    path("Me", views.NotOffered.as_view()),
    path(".search", views.NotOffered.as_view()),
    re_path(r"\A(?P<path>.*)\Z", views.UnknownAddress.as_view()),
]
