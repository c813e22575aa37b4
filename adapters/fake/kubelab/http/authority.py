"""Certificates for a TLS server, signed by a new authority at each start. No certificate is stored."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubelab.http.certificates import Certificates

LIFETIME: Final = timedelta(days=365)
SKEW: Final = timedelta(hours=1)
"""The time by which certificates are predated, for clients whose clocks are slow."""


def certificates_for(hosts: Sequence[str], now: datetime) -> Certificates:
    """Create a certificate authority, and a server certificate for `hosts` that the authority signs.

    Return both certificates and the private key of the server certificate. The certificates are valid for a year from
    `now`.
    """
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = _name("kubelab-ca"), _name("kubelab")
    authority = (
        _unsigned(issuer, issuer, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        # Since Python 3.13 clients refuse an authority without a key usage (ssl.VERIFY_X509_STRICT; RFC 5280, 4.2.1.3).
        .add_extension(_usage(authority=True), critical=True)
        .sign(authority_key, SHA256())
    )
    certificate = (
        _unsigned(subject, issuer, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        # Go and Python compare the host with this extension only, and not with the common name.
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .sign(authority_key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificates(authority.public_bytes(Encoding.PEM), certificate.public_bytes(Encoding.PEM), private)


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
