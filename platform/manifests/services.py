"""Services in the file of a job, which give its Pods names inside of the cluster."""

from __future__ import annotations

from manifests.fields import Field

SERVICE = "Service"
_CLUSTER_IP = "ClusterIP"
_NONE = "None"
#: What a Service of a job may have.
_SPEC = frozenset(
    {
        *("selector", "ports", "type", "clusterIP", "publishNotReadyAddresses"),
        *("sessionAffinity", "sessionAffinityConfig", "ipFamilies", "ipFamilyPolicy"),
        "internalTrafficPolicy",
    }
)
_PORT = frozenset({"name", "port", "targetPort", "protocol", "appProtocol"})


def check_service(spec: Field) -> None:
    """Refuse in the spec of a Service what opens it to others than Pods of the cluster."""
    kind = spec.at("type")
    if kind.text() not in (None, _CLUSTER_IP):
        kind.refuse(
            f"must be {_CLUSTER_IP}: the Service of a job is reached from inside the cluster only"
        )
    address = spec.at("clusterIP")
    if address.text() not in (None, "", _NONE):
        address.refuse(f"the cluster chooses the address; write {_NONE}, or leave it out")
    for name, field in spec.items():
        if name not in _SPEC:
            field.refuse("is not taken in the Service of a job; leave it out")
    for port in spec.at("ports").each():
        for name, field in port.items():
            if name not in _PORT:
                field.refuse("opens no port of nodes in the Service of a job; leave it out")
    if not spec.at("selector").texts():
        spec.at("selector").refuse("is required: labels of the job's Pods")
