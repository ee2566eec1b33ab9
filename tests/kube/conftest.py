"""The real Kubernetes as one of the rigs that connectors are tested with."""

from collections.abc import Iterator

import pytest

from conformance.rigs import KubernetesRig
from connectors.kubernetes.client.api import KubeApi
from kube_bed import KubeBed


@pytest.fixture
def kubernetes_rig(kube_bed: KubeBed) -> Iterator[KubernetesRig]:
    """A part of it that is nobody else's."""
    opened = KubernetesRig(kube_bed)
    yield opened
    opened.close()


@pytest.fixture
def admin(kube_bed: KubeBed) -> Iterator[KubeApi]:
    """The cluster's administrator."""
    api = KubeApi(kubeconfig=str(kube_bed.admin_kubeconfig))
    yield api
    api.close()
