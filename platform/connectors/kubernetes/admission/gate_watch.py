"""Checks whether the gate (`gating`) is in place on a cluster, and explains what is missing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connectors.kubernetes.admission.gating import API, PORTAL, TAKE, gate_manifests, path_of
from connectors.kubernetes.client.api import Forbidden, KubeApi, NotFound
from connectors.kubernetes.options.options import OPERATORS

MANIFEST = "deploy/kubernetes/gate.yaml"
WHOAMI_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
LOOKED_EVERY_S = 30.0

TOO_OLD = (
    "This Kubernetes has no MutatingAdmissionPolicy (admissionregistration.k8s.io/v1), so that "
    "jobs submitted beside the portal are not gated when they are created. Kueue's admission check "
    "alone holds them: each holds its quota in Kueue while it waits, also from jobs that could "
    "run, and who submitted it is not known."
)
#: The complaint if option `unlabelled` is "refuse" but policy `TAKE` is still there.
TAKES_ANYWAY = (
    "Workloads without the label of a queue are taken into their team's, although option "
    f"unlabelled refuses them: policy {TAKE} is still there. An administrator of the cluster runs: "
    f"kubectl delete mutatingadmissionpolicybinding,mutatingadmissionpolicy {TAKE}"
)


@dataclass(frozen=True, slots=True)
class GateState:
    """The state of the gate: whether natives are gated on creation.

    `complaint` is why they are not, or another problem.
    """

    is_in_place: bool
    complaint: str = ""


class GateWatch:
    """Checks now and then whether the gate is in place; for several threads at once."""

    def __init__(
        self,
        api: KubeApi,
        monotonic_s: Callable[[], float] = time.monotonic,
        *,
        operators: Sequence[str] = OPERATORS,
        exempt: Sequence[str] = (),
        takes_unlabelled: bool = True,
    ) -> None:
        self._api = api
        self._operators = operators
        self._exempt = exempt
        self._takes_unlabelled = takes_unlabelled
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._portal = ""
        self._looked_s = -float("inf")
        self._state = GateState(is_in_place=False)

    def state(self) -> GateState:
        """Return the state of the last check, which is at most `LOOKED_EVERY_S` old.

        Raises ConnectorError.
        """
        with self._lock:
            if self._monotonic_s() - self._looked_s >= LOOKED_EVERY_S:
                self._state = self._look()
                self._looked_s = self._monotonic_s()
            return self._state

    @property
    def last_state(self) -> GateState:
        """The state of the last check, of any age."""
        return self._state

    def _look(self) -> GateState:
        if not self._portal:
            self._portal = _own_name(self._api)
        if "mutatingadmissionpolicies" not in _served(self._api):
            return GateState(is_in_place=False, complaint=TOO_OLD)
        wrong = []
        has_unwanted = False
        for manifest in gate_manifests(self._portal, self._operators, self._exempt):
            what = f"{manifest['kind']} {manifest['metadata']['name']}"
            is_wanted = self._takes_unlabelled or manifest["metadata"]["name"] != TAKE
            try:
                found = self._api.get(path_of(manifest))
            except NotFound:
                if is_wanted:
                    wrong.append(f"{what} is missing")
                continue
            except Forbidden as error:
                return GateState(is_in_place=False, complaint=_complaint([f"{what}: {error}"]))
            if not is_wanted:
                has_unwanted = True
            elif not is_part(manifest["spec"], found.get("spec")):
                wrong.append(f"{what} is another one")
        if wrong:
            return GateState(is_in_place=False, complaint=_complaint(wrong, self._portal))
        return GateState(is_in_place=True, complaint=TAKES_ANYWAY if has_unwanted else "")


def _complaint(wrong: Sequence[str], portal: str = PORTAL) -> str:
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    named = "" if portal == PORTAL else f", with {portal} in place of {PORTAL}"
    return (
        "Jobs submitted beside the portal are not all gated when they are created: "
        f"{wrong[0]}{more}. An administrator of the cluster applies {MANIFEST}{named}. Until then "
        "Kueue's admission check alone holds them, and each holds its quota in Kueue while it "
        "waits."
    )


def is_part(wanted: object, found: object) -> bool:
    """Return whether `found` contains all of `wanted`. It may have more fields: server defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and is_part(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(wanted) == len(found)
            and all(is_part(*each) for each in zip(wanted, found, strict=True))
        )
    return wanted == found


def _own_name(api: KubeApi) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = api.create(WHOAMI_PATH, body)
    except NotFound:
        return PORTAL
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or PORTAL)


def _served(api: KubeApi) -> frozenset[str]:
    """Return the resources in our version of the admission policy API."""
    try:
        answer = api.get(f"/apis/{API}")
    except NotFound:
        return frozenset()
    return frozenset(str(one.get("name")) for one in answer.get("resources") or ())
