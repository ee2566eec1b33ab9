"""Representations of webhooks and their deliveries."""

from __future__ import annotations

from rest_framework import serializers

from notices.models import NoticeEvent
from notices.webhook_bodies import secret_text
from notices.webhook_models import (
    WebhookDelivery,
    WebhookKind,
    WebhookState,
    WebhookTarget,
)
from notices.webhook_targets import NAME_LENGTH_MAX, shown_address
from webapi.outgoing import URL_LENGTH_MAX
from webapi.serializers import (
    BoundedListField,
    StrictSerializer,
    TextField,
    UtcTimeField,
    YesOrNoField,
)

_URL_HELP = "https:// address to post to. It is a secret and is not shown again"


def _events(**options: bool) -> BoundedListField:
    return BoundedListField(
        child=serializers.ChoiceField(choices=NoticeEvent.choices),
        min_length=1,
        max_length=len(NoticeEvent),
        **options,
    )


class WebhookCreateSerializer(StrictSerializer):
    """A new webhook."""

    name = TextField(max_length=NAME_LENGTH_MAX)
    kind = serializers.ChoiceField(choices=WebhookKind.choices)
    url = TextField(max_length=URL_LENGTH_MAX, help_text=_URL_HELP)
    events = _events()
    node = TextField(
        required=False,
        allow_null=True,
        max_length=1_024,
        help_text="Path of the node whose events are sent, with all below it. Default: the "
        "caller's own notices",
    )


class WebhookUpdateSerializer(StrictSerializer):
    """Changes of a webhook. Missing fields stay as they are."""

    name = TextField(required=False, max_length=NAME_LENGTH_MAX)
    url = TextField(required=False, max_length=URL_LENGTH_MAX, help_text=_URL_HELP)
    events = _events(required=False)
    is_enabled = YesOrNoField(required=False)


class WebhookSerializer(serializers.ModelSerializer[WebhookTarget]):
    """A webhook of a node or of the caller."""

    kind = serializers.ChoiceField(choices=WebhookKind.choices)
    node = serializers.SerializerMethodField(help_text="Path of its node; null: of the caller")
    address = serializers.SerializerMethodField(help_text="Host and end of the address")
    events = serializers.ListField(child=serializers.ChoiceField(choices=NoticeEvent.choices))
    created_at = UtcTimeField()
    failing_since = UtcTimeField(
        allow_null=True, help_text="The first failure after the last success"
    )
    disabled_at = UtcTimeField(allow_null=True)
    old_secret_until = UtcTimeField(
        allow_null=True, help_text="Until when the secret before the last rotation signs, too"
    )

    class Meta:
        model = WebhookTarget
        fields = [
            *("id", "node", "name", "kind", "address", "events", "created_at", "failing_since"),
            *("disabled_at", "disabled_reason", "old_secret_until", "version"),
        ]

    def get_node(self, target: WebhookTarget) -> str | None:
        """Return the path of the node, or None."""
        return None if target.node is None else target.node.display_path

    def get_address(self, target: WebhookTarget) -> str:
        """Return the address without its secret."""
        return shown_address(target.url)


class WebhookWithSecretSerializer(WebhookSerializer):
    """A webhook with its secret, which is shown once."""

    secret = serializers.SerializerMethodField(
        help_text="Secret of the signatures, for libraries of Standard Webhooks; empty for other "
        "kinds, and in the answer to a repeat"
    )

    class Meta(WebhookSerializer.Meta):
        fields = [*WebhookSerializer.Meta.fields, "secret"]

    def get_secret(self, target: WebhookTarget) -> str:
        """Return the secret of a signed webhook."""
        return secret_text(bytes(target.secret)) if target.kind == WebhookKind.SIGNED else ""


class WebhookDeliverySerializer(serializers.ModelSerializer[WebhookDelivery]):
    """A message to a webhook, with the outcome of its last try."""

    event = serializers.CharField(help_text="The event, or `test`")
    state = serializers.ChoiceField(choices=WebhookState.choices)
    sentence = serializers.CharField(source="data.sentence")
    created_at = UtcTimeField()
    next_at = serializers.SerializerMethodField(
        help_text="When it is tried; null once it has ended"
    )
    ended_at = UtcTimeField(allow_null=True, help_text="When it succeeded, or was given up")

    class Meta:
        model = WebhookDelivery
        fields = [
            *("id", "event", "sentence", "state", "attempts", "status_code", "response_excerpt"),
            *("duration_ms", "error", "created_at", "next_at", "ended_at"),
        ]
        extra_kwargs = {
            "status_code": {"help_text": "Status of the last answer; null: there was none"},
            "response_excerpt": {"help_text": "First 500 characters of the last answer"},
        }

    def get_next_at(self, delivery: WebhookDelivery) -> str | None:
        """Return the time of the next try, or None."""
        if delivery.ended_at is not None:
            return None
        return UtcTimeField().to_representation(delivery.next_at)
