"""Export and import of the tree over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from treefile.comparing import Action, Comparison, Options
from treefile.exporting import export_tree
from treefile.importing import ERRORS_MAX, ImportRequest, apply_import, preview_import
from treefile.rows import BYTES_MAX, ROWS_MAX, Format
from treefile.writing import write
from webapi.formats import CsvRenderer, NamedFormats, YamlRenderer
from webapi.parameters import Parameters, choice, flag
from webapi.preconditions import required_etag
from webapi.serializers import (
    StrictSerializer,
    TextField,
    WaitingWriteSerializer,
    YesOrNoField,
    answers,
    etag_header,
    if_match_header,
)

_IF_MATCH = if_match_header(
    "The digest of the preview, quoted; required without dry_run", is_required=False
)
_ETAG = etag_header("Digest of the changes", of=(200,))


class ExportParameters(Parameters):
    """The format of the file."""

    format: str = choice(tuple(Format), default=Format.CSV.value)


class ImportParameters(Parameters):
    """The parameter of an import."""

    dry_run: bool = flag("Only preview")


class TreeFileSerializer(StrictSerializer):
    """A tree file."""

    format = serializers.ChoiceField(choices=[form.value for form in Format])
    text = TextField(
        max_length=BYTES_MAX,
        trim_whitespace=False,
        help_text=f"The file, in the form of the export; at most {ROWS_MAX:,} rows",
    )


class TreeImportSerializer(TreeFileSerializer):
    """A tree file, and the fate of what it lacks."""

    archive_missing = YesOrNoField(
        required=False, default=False, help_text="Archive nodes that the file lacks"
    )
    revoke_missing = YesOrNoField(
        required=False,
        default=False,
        help_text="Revoke roles and withdraw invitations that the file lacks",
    )


class TreeChangeSerializer(serializers.Serializer[Any]):
    """A change by an import."""

    action = serializers.ChoiceField(choices=[action.value for action in Action])
    line = serializers.IntegerField(help_text="Line of the file; 0: the file lacks it")
    path = serializers.CharField(help_text="Path of the node after the import")
    kind = serializers.CharField(help_text="Kind of the node; empty for a member")
    user = serializers.CharField(help_text="Login or mail address; empty for a node")
    role = serializers.CharField(help_text="Role; empty for a node")
    pool = serializers.CharField(help_text="Pool of a quota; empty for others")
    before = serializers.CharField(help_text="Name, path, expiry or quota before; empty: none")
    after = serializers.CharField(help_text="Name, path, expiry or quota after; empty: none")
    nodes_below = serializers.IntegerField(help_text="Nodes below that are archived, too")


class LineErrorSerializer(serializers.Serializer[Any]):
    """A refused line."""

    line = serializers.IntegerField(help_text="Line of the file; 0: the whole file")
    sentence = serializers.CharField(help_text="The reason, and what to do")


class TreeImportPreviewSerializer(serializers.Serializer[Any]):
    """The changes by an import, previewed or applied."""

    is_applied = serializers.BooleanField()
    digest = serializers.CharField(
        allow_null=True,
        help_text="Identity of these changes, for If-Match; null with errors, and without changes",
    )
    counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of changes by action"
    )
    changes = TreeChangeSerializer(many=True)
    error_count = serializers.IntegerField()
    line_errors = LineErrorSerializer(many=True, help_text=f"The first {ERRORS_MAX}")
    missing_nodes = serializers.IntegerField(
        help_text="Nodes that the file lacks and that stay, without archive_missing"
    )
    missing_roles = serializers.IntegerField(
        help_text="Roles and invitations that the file lacks and that stay, without revoke_missing"
    )
    second_person = serializers.CharField(
        allow_null=True,
        help_text="Why the whole file would wait for a second person; null if it would not",
    )


class TreeExport(APIView):
    """The tree at and below a node as a file."""

    renderer_classes: list[type[BaseRenderer]] = [CsvRenderer, YamlRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="export_tree",
        summary="Export nodes, quotas and members at and below a node, as CSV or YAML",
        description="Without archived nodes, and without roles by groups. Open invitations are "
        "members with a mail address. It needs manage_members on the node.",
        parameters=ExportParameters.in_openapi(),
        responses=answers(
            {
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
                (200, "application/yaml"): OpenApiTypes.OBJECT,  # type: ignore[dict-item]
            },
            403,
            404,
        ),
    )
    def get(self, request: Request, tree_node_id: UUID) -> Response:
        """Return the file."""
        ExportParameters.read(request)
        form = Format(str(request.accepted_renderer.format))
        now = SystemClock().now()
        node, file = export_tree(tree_node_id, actor=actor_from(request), now=now)
        name = f"tree-{node.slug}-{now:%Y%m%d-%H%M%S}.{form.value}"
        return Response(
            write(file, form),
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )


class TreeImport(APIView):
    """The import of a tree file at and below a node."""

    @extend_schema(
        operation_id="import_tree",
        summary="Preview or apply a tree file at and below a node",
        description="With `dry_run=true` nothing is changed, and the answer has all changes, the "
        "errors of all lines, and a `digest`. Without it, `If-Match` must be that digest, quoted: "
        "nothing else is applied than what was previewed, in one transaction. Nothing is archived "
        "or revoked unless the body says so. Unknown mail addresses are invited. If the changes "
        "need a second person, the whole file waits as one request (202).",
        parameters=[*ImportParameters.in_openapi(), _IF_MATCH, _ETAG],
        request=TreeImportSerializer,
        responses=answers(
            {200: TreeImportPreviewSerializer, 202: WaitingWriteSerializer},
            *(403, 404, 409, 412, 428),
        ),
    )
    def post(self, request: Request, tree_node_id: UUID) -> Response:
        """Preview or apply the file."""
        asked = ImportParameters.read(request)
        actor, clock = actor_from(request), SystemClock()
        body = TreeImportSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        wanted = ImportRequest(
            node_id=tree_node_id,
            text=given["text"],
            form=Format(given["format"]),
            options=Options(given["archive_missing"], given["revoke_missing"]),
        )
        if asked.dry_run:
            found = preview_import(wanted, actor=actor, clock=clock)
        else:
            digest = required_etag(request).strip('"')
            found = apply_import(wanted, digest=digest, actor=actor, clock=clock)
        headers = {"ETag": f'"{found.digest}"'}
        return Response(preview_body(found, is_applied=not asked.dry_run), headers=headers)


def preview_body(found: Comparison, *, is_applied: bool) -> dict[str, Any]:
    """Return the answer's body for the changes of a file."""
    counts: dict[str, int] = {}
    for change in found.changes:
        counts[change.action.value] = counts.get(change.action.value, 0) + 1
    body: dict[str, Any] = TreeImportPreviewSerializer(
        {
            "is_applied": is_applied,
            "digest": found.digest if found.changes and not found.errors else None,
            "counts": counts,
            "changes": found.changes,
            "error_count": len(found.errors),
            "line_errors": found.errors[:ERRORS_MAX],
            "missing_nodes": found.missing_nodes,
            "missing_roles": found.missing_roles,
            "second_person": found.second_person or None,
        }
    ).data
    return body
