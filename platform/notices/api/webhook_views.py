"""Webhooks of nodes and of the caller."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from notices.api.webhook_serializers import (
    WebhookCreateSerializer,
    WebhookDeliverySerializer,
    WebhookSerializer,
    WebhookUpdateSerializer,
    WebhookWithSecretSerializer,
)
from notices.webhook_models import WebhookState
from notices.webhook_targets import (
    change_target,
    create_target,
    remove_target,
    replay,
    rotate_secret,
    send_test,
    visible_deliveries,
    visible_targets,
)
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_body, refuse_unknown_parameters
from webapi.parameters import PageParameters, several
from webapi.preconditions import required_version, tagged
from webapi.serializers import IDEMPOTENCY_KEY, answers, etag_header, if_match_header, page_of

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class WebhookList(APIView):
    """The list of webhooks, and a new one."""

    @extend_schema(
        operation_id="list_webhooks",
        summary="List webhooks, newest first",
        description="Your own, and those of nodes whose members you manage.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(WebhookSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return a page of webhooks."""
        asked = PageParameters.read(request)
        page = page_by_id(asked, visible_targets(actor_from(request)), newest_first=True)
        return Response(page_body(request, page, WebhookSerializer().to_representation))

    @extend_schema(
        operation_id="create_webhook",
        summary="Post events to an address from now on",
        description="Events of a node need the right manage_members on it. The secret of a signed "
        "webhook is in this answer only. A repeat with the same Idempotency-Key does not show it.",
        request=WebhookCreateSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: WebhookWithSecretSerializer}, 403, 404, 409),
    )
    def post(self, request: Request) -> Response:
        """Create a webhook."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = WebhookCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data
        secret = ""

        def act() -> tuple[int, dict[str, Any]]:
            nonlocal secret
            target = create_target(
                actor=actor,
                node_path=asked.get("node"),
                name=asked["name"],
                kind=asked["kind"],
                url=asked["url"],
                events=asked["events"],
                now=now,
            )
            shown = dict(WebhookWithSecretSerializer(target).data)
            # The stored answer to repeats must not hold the secret.
            secret, shown["secret"] = shown["secret"], ""
            return 201, shown

        response = respond_once(request, principal_id=actor.user.pk, now=now, act=act)
        response.data["secret"] = secret
        return response


class WebhookDetail(APIView):
    """A webhook, by its id."""

    @extend_schema(
        operation_id="change_webhook",
        summary="Change, disable or enable a webhook",
        request=WebhookUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: WebhookSerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, webhook_id: UUID) -> Response:
        """Change the webhook."""
        refuse_unknown_parameters(request, set())
        body = WebhookUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        target = change_target(
            webhook_id,
            body.validated_data,
            actor=actor_from(request),
            if_version=required_version(request),
            now=SystemClock().now(),
        )
        return tagged(Response(WebhookSerializer(target).data))

    @extend_schema(
        operation_id="remove_webhook",
        summary="Remove a webhook with its deliveries",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, webhook_id: UUID) -> Response:
        """Remove the webhook."""
        refuse_unknown_parameters(request, set())
        remove_target(webhook_id, actor=actor_from(request), now=SystemClock().now())
        return Response(status=204)


class WebhookSecret(APIView):
    """The secret of a webhook."""

    @extend_schema(
        operation_id="rotate_webhook_secret",
        summary="Replace the secret of a webhook",
        description="The new secret is in this answer only. For 24 hours messages have two "
        "signatures, by the new secret and by the old one.",
        request=None,
        responses=answers({200: WebhookWithSecretSerializer}, 403, 404),
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Rotate the secret."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        target = rotate_secret(webhook_id, actor=actor_from(request), now=SystemClock().now())
        return Response(WebhookWithSecretSerializer(target).data)


class WebhookTest(APIView):
    """A test message to a webhook."""

    @extend_schema(
        operation_id="test_webhook",
        summary="Send a test message to a webhook",
        description="The outcome is in the list of its deliveries within some seconds.",
        request=None,
        responses=answers({202: WebhookDeliverySerializer}, 403, 404, 409),
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Plan a test message."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        delivery = send_test(webhook_id, actor=actor_from(request), now=SystemClock().now())
        return Response(WebhookDeliverySerializer(delivery).data, status=202)


class WebhookDeliveryParameters(PageParameters):
    """The filters of the list of deliveries."""

    state: frozenset[str] | None = several(WebhookState, "Only in these states")


class WebhookDeliveryList(APIView):
    """The deliveries to a webhook."""

    @extend_schema(
        operation_id="list_webhook_deliveries",
        summary="List the messages to a webhook, newest first",
        description="They are kept for 30 days.",
        parameters=WebhookDeliveryParameters.in_openapi(),
        responses=answers({200: page_of(WebhookDeliverySerializer)}, 404),
    )
    def get(self, request: Request, webhook_id: UUID) -> Response:
        """Return a page of deliveries."""
        asked = WebhookDeliveryParameters.read(request)
        rows = visible_deliveries(actor_from(request), webhook_id)
        if asked.state is not None:
            rows = rows.filter(state__in=asked.state)
        page = page_by_id(asked, rows, newest_first=True)
        return Response(page_body(request, page, WebhookDeliverySerializer().to_representation))


class WebhookReplay(APIView):
    """The replay of a delivery."""

    @extend_schema(
        operation_id="replay_webhook_delivery",
        summary="Send a message to a webhook again",
        description="It has the same id, by which a receiver may know it.",
        request=None,
        responses=answers({202: WebhookDeliverySerializer}, 403, 404, 409),
    )
    def post(self, request: Request, webhook_delivery_id: UUID) -> Response:
        """Replay the delivery."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        delivery = replay(webhook_delivery_id, actor=actor_from(request), now=SystemClock().now())
        return Response(WebhookDeliverySerializer(delivery).data, status=202)
