"""Nothing that a user writes reaches any field of a manifest but those that are for it.

Each text of a workload holds a mark of its own. In all documents of every kind, the marks of the
script, of environment values and of the image are found in exactly their own fields, and those of
names, users and teams nowhere but in the one annotation that is for people to read.

The mutants that died: the job's name as a label, the team's path in the namespace, an environment
value in the launcher's arguments, the user as an annotation, the script as an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.kubernetes_builders import CLUSTER_ID, ManifestCase, manifest_cases
from connectors.kubernetes.manifests.building import objects_for
from connectors.kubernetes.objects import naming

CASES = {case.name: case for case in manifest_cases()}
#: What a path of a team, an image and an environment key can hold, and what everything else can.
_SLUG = st.text("abz019", min_size=1, max_size=8)
_NASTY = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)
_HOSTILE = st.sampled_from(
    ["$(RANK)", "$$", "'; reboot #", '"}', "\n#SBATCH", "{{x}}", "a: b", "../..", "\u202e", "`id`"]
)

_ENV_VALUE = re.compile(r"(?:\.\w+|\[\d+\])*\.containers\[0\]\.env\[\d+\]\.(?:value|name)")
_IMAGE = re.compile(r"(?:\.\w+|\[\d+\])*\.containers\[0\]\.image")


def leaves(item: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a document with where it stands; the keys of mappings stand at `KEY`."""
    if isinstance(item, Mapping):
        for name, value in item.items():
            yield f"{path}.KEY", str(name)
            yield from leaves(value, f"{path}.{name}")
    elif isinstance(item, list | tuple):
        for number, value in enumerate(item):
            yield from leaves(value, f"{path}[{number}]")
    else:
        yield path, str(item)


@settings(max_examples=60)
@given(case=st.sampled_from(list(CASES.values())), slug=_SLUG, nasty=_NASTY, hostile=_HOSTILE)
def test_what_users_write_stays_where_it_belongs(
    case: ManifestCase, slug: str, nasty: str, hostile: str
) -> None:
    digest = "0" * 64
    registry = "ghcr.io/acme/" if case.options.allowed_registries else ""
    workload = replace(
        case.workload,
        name=f"zqname{nasty}{hostile}",
        user=f"zquser{nasty}{hostile}",
        team=f"zqteam/{slug}",
        script=f"zqscript{nasty}{hostile}",
        environment={"ZQKEY": f"zqvalue{nasty}{hostile}"},
        image=f"{registry}zqimage/{slug}@sha256:{digest}",
    )
    objects = objects_for(workload, case.options, cluster_id=CLUSTER_ID)
    images = 0
    for document in (*objects.before, objects.main, *objects.others):
        for path, text in leaves(document):
            where = f"{document['kind']}{path}: {text[:200]!r}"
            assert "zqname" not in text, where
            assert "zquser" not in text, where
            if "zqteam" in text:
                assert path == f".metadata.annotations.{naming.PATH}", where
                assert text == workload.team
            if "zqscript" in text:
                assert (document["kind"], path) == ("ConfigMap", ".data.script"), where
                assert text == workload.script
            if "zqvalue" in text or "ZQKEY" in text:
                assert _ENV_VALUE.fullmatch(path), where
            if "zqvalue" in text:
                assert text == workload.environment["ZQKEY"].replace("$", "$$")
            if "zqimage" in text:
                assert _IMAGE.fullmatch(path), where
                assert text == workload.image
                images += 1
        assert naming.team_namespace(workload.team) == document["metadata"]["namespace"]
        for name in (document["metadata"]["name"], *document["metadata"]["labels"].values()):
            assert re.fullmatch(r"[a-z0-9-]+", name, re.ASCII)
    assert images >= 1


@given(key=st.text("abz019-", min_size=1, max_size=64))
def test_every_key_has_a_name_of_its_own_that_every_kind_takes(key: str) -> None:
    name = naming.workload_name(key)
    assert re.fullmatch(r"[a-z](?:[a-z0-9-]*[a-z0-9])?", name, re.ASCII)
    assert len(f"{name}-worker-4095") <= 63
    assert len(f"{name}-w17-0-4095-abcde") <= 63
    assert naming.workload_name(key) == name
    if name != key:
        assert name.startswith("tg-")
        assert naming.workload_name(name) == name
    assert 20_000 <= naming.master_port(key) < 30_000
