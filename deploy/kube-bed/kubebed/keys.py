"""Certificates, service account keys and kubeconfigs of a bed; they live as long as its folder."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
from collections.abc import Mapping
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubebed.settings import HOST, Settings

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

#: User -> (common name, organization); each has a client certificate and a kubeconfig.
CLIENTS = {
    "admin": ("bed-admin", "system:masters"),
    "apiserver": ("bed-apiserver", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kueue": ("bed-kueue", "system:masters"),
    "jobset": ("bed-jobset", "system:masters"),
    "kwok": ("bed-kwok", "system:masters"),
    "runner": ("bed-runner", "system:masters"),
    "training": ("bed-training", "system:masters"),
    "mpi": ("bed-mpi", "system:masters"),
    "trainer": ("bed-trainer", "system:masters"),
    "ray": ("bed-ray", "system:masters"),
}
_LIFE = dt.timedelta(days=365)


def write(path: Path, data: bytes | str, mode: int = 0o600) -> Path:
    """Write a file that only its owner reads, unless `mode` says otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def encoded(path: Path) -> str:
    """The file in base64, as manifests want it."""
    return base64.b64encode(path.read_bytes()).decode()


def make_keys(settings: Settings) -> None:
    """All keys and the kubeconfigs of CLIENTS, if the bed has none yet."""
    pki = settings.pki
    complete = pki / "complete"
    if complete.exists():
        return
    authority = _Authority(pki, "kube-bed", ec.generate_private_key(ec.SECP256R1()))
    authority.issue("server", "kube-bed", names=("localhost",))
    for name, (common_name, organization) in CLIENTS.items():
        authority.issue(name, common_name, organization)
        certificate = {
            "client-certificate-data": encoded(pki / f"{name}.crt"),
            "client-key-data": encoded(pki / f"{name}.key"),
        }
        write_kubeconfig(settings, name, certificate)
    _make_token_keys(pki)
    # Webhook servers look for tls.crt and tls.key in a folder of theirs.
    for owner in ("jobset", "trainer"):
        for part in ("crt", "key"):
            write(pki / owner / f"tls.{part}", (pki / f"server.{part}").read_bytes())
    # Kueue's comes with an authority of its own: it checks the name of that authority, wants its
    # key to be RSA in PKCS#1 and the certificate to carry the service's name, and waits for ever
    # otherwise.
    kueue = _Authority(pki / "kueue", "kueue-ca", rsa.generate_private_key(65537, 2048))
    kueue.issue("tls", "kueue", names=("kueue-webhook-service.kueue-system.svc",))
    complete.touch()


def write_kubeconfig(
    settings: Settings, user: str, credentials: Mapping[str, str], namespace: str = "default"
) -> Path:
    """A kubeconfig of the bed for `user`, who shows these credentials."""
    cluster = {
        "server": settings.url,
        "certificate-authority-data": encoded(settings.pki / "ca.crt"),
    }
    context = {"cluster": "bed", "user": user, "namespace": namespace}
    told = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bed", "cluster": cluster}],
        "users": [{"name": user, "user": dict(credentials)}],
        "contexts": [{"name": "bed", "context": context}],
        "current-context": "bed",
    }
    return write(settings.kubeconfig(user), yaml.safe_dump(told))


def _make_token_keys(pki: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    write(pki / "tokens.key", _key_pem(key))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write(pki / "tokens.pub", public, 0o644)


def _key_pem(key: _Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,  # the only one that Kueue reads
        serialization.NoEncryption(),
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class _Authority:
    """A certificate authority; its own certificate is ca.crt in `folder`."""

    def __init__(self, folder: Path, name: str, key: _Key) -> None:
        self._folder = folder
        self._key = key
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._builder(self._name, key, is_authority=True)
        own = own.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        write(folder / "ca.crt", _certificate_pem(own.sign(key, hashes.SHA256())), 0o644)
        write(folder / "ca.key", _key_pem(key))

    def issue(
        self, file: str, common_name: str, organization: str = "", names: tuple[str, ...] = ()
    ) -> None:
        """FILE.crt and FILE.key: for a client, and for a server too when it has names."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            subject.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH] + [ExtendedKeyUsageOID.SERVER_AUTH] * bool(names)
        of_authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            self._builder(x509.Name(subject), key, is_authority=False)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(of_authority, critical=False)
        )
        if names:
            alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
            alternatives.append(x509.IPAddress(ipaddress.ip_address(HOST)))
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        write(self._folder / f"{file}.crt", _certificate_pem(certificate), 0o644)
        write(self._folder / f"{file}.key", _key_pem(key))

    def _builder(
        self, subject: x509.Name, key: _Key, *, is_authority: bool
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + _LIFE)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(identifier, critical=False)
        )
