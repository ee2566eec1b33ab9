"""The Services in the file of a manifest job: their Pods, and their names in the Pods. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.objects import naming
from manifests.services import SERVICE

Json = dict[str, Any]

#: Labels of Pods whose value is the name of their object.
_NAMES = frozenset(
    {
        *("job-name", "batch.kubernetes.io/job-name", "jobset.sigs.k8s.io/jobset-name"),
        "training.kubeflow.org/job-name",
    }
)
#: Beginnings of labels that controllers write.
_OF_CONTROLLERS = (
    *("batch.kubernetes.io/", "jobset.sigs.k8s.io/", "training.kubeflow.org/", "ray.io/"),
    *("trainer.kubeflow.org/", "job-name", "controller-uid"),
)
#: What stands before and after a name that is an address.
_BEFORE_ADDRESS = re.compile(
    r"(?://|(?:addr|address|host|hostname|server|endpoint|url)[\"']?[=\s:]+[\"']?)\Z", re.IGNORECASE
)
_AFTER_ADDRESS = re.compile(r":[0-9$]|\.svc\b")


def service_spec(
    service: Mapping[str, Any],
    templates: Iterable[Mapping[str, Any]],
    *,
    given: str | None,
    here: str,
) -> Json:
    """Return the spec of a Service that selects Pods of one attempt only.

    `templates` are those of the job's Pods. The object's name is `given` in the file, and `here` on
    the cluster. Raises WorkloadRejected where it selects none of them.
    """
    spec = {**service["spec"]}
    selector = dict(spec["selector"])
    wanted = {
        name: value for name, value in selector.items() if not name.startswith(_OF_CONTROLLERS)
    }
    if not any(
        wanted.items() <= (one["metadata"].get("labels") or {}).items() for one in templates
    ):
        listed = ", ".join(f"{name}={value}" for name, value in sorted(wanted.items()))
        raise WorkloadRejected(
            f"the Service {str(service['metadata']['name'])[:63]} selects none of the job's Pods; "
            f"write the labels {listed[:200]} into their template"
        )
    for name in _NAMES & selector.keys():
        if selector[name] == given:
            selector[name] = here
    spec["selector"] = {**selector, naming.OF_ATTEMPT: here}
    return spec


def renamed_services(
    names: Mapping[tuple[str, str], str], namespace: str
) -> Callable[[str], str] | None:
    """Return what writes the names that the Services have here into a text; None without any.

    A name counts where it is an address: the whole text, after the name of a host or an option for
    addresses, before a port or `.svc`, or in a URL. Elsewhere it may be any word.
    """
    services = {name: here for (kind, name), here in names.items() if kind == SERVICE}
    if not services:
        return None
    listed = "|".join(re.escape(one) for one in sorted(services, key=len, reverse=True))
    word = re.compile(
        rf"(?<![\w./-])((?:[a-z0-9-]+\.)?)({listed})(?:\.[a-z0-9-]+(?=\.svc\b))?(?![\w-])"
        rf"(?!\.(?!svc\b)\w)"
    )
    in_address = re.compile(rf"(?<=//)((?:[a-z0-9-]+\.)?)({listed})(?=[:/]|$)")

    def here(found: re.Match[str]) -> str:
        before, after = found.string[: found.start()], found.string[found.end() :]
        is_address = (
            found[1]
            or not (before or after)
            or _AFTER_ADDRESS.match(after)
            or _BEFORE_ADDRESS.search(before)
        )
        if not is_address:
            return found[0]
        named = f"{found[1]}{services[found[2]]}"
        is_in_namespace = found[0] != found[1] + found[2]
        return f"{named}.{namespace}" if is_in_namespace else named

    return lambda text: in_address.sub(here, word.sub(here, text))
