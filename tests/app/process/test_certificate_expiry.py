"""The validity that is read from certificates in PEM form."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.http.authority import LIFETIME, certificates_for
from purekube.apimachinery.certificates import Validity, validities

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
KEY = ec.generate_private_key(ec.SECP256R1())
MADE = certificates_for(["localhost"], NOW)


def certificate(name: str, begin: datetime, end: datetime) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(KEY.public_key())
    built = builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
    return built.sign(KEY, SHA256()).public_bytes(Encoding.PEM)


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=16),  # 64 bytes at most
    st.integers(-55, 7900).map(lambda years: NOW + timedelta(days=365.25 * years)),
)
@example("a", datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC))
@example("a", datetime(2050, 1, 1, tzinfo=UTC))
def test_the_validity_is_that_which_the_certificate_has(name: str, end: datetime) -> None:
    begin = end - timedelta(hours=1)
    made = certificate(name, begin, end)
    assert validities(made) == (Validity(end, begin),)
    assert validities(b"text\n" + made + MADE.authority)[1].expires == NOW + LIFETIME


@pytest.mark.parametrize(("days", "left"), [(365, 14), (90, 14), (56, 14), (40, 10), (7, 1.75), (1, 0.25)])
def test_a_renewal_is_overdue_two_weeks_before_the_expiry_or_in_the_last_quarter_of_a_short_life(
    days: int, left: float
) -> None:
    """cert-manager renews when a third of the life is left: before anybody is warned, however short the life."""
    validity = Validity(NOW + timedelta(days=days), NOW)
    assert validity.expires - validity.overdue == timedelta(days=left)
    assert NOW + timedelta(days=days) * 2 / 3 < validity.overdue


@given(st.binary(max_size=200))
@example(b"")
@example(b"-----BEGIN CERTIFICATE-----AAAA-----END CERTIFICATE-----")
@example(b"-----BEGIN CERTIFICATE-----A-----END CERTIFICATE-----")
def test_what_is_no_certificate_has_no_validity(text: bytes) -> None:
    assert validities(text) == ()


@given(st.integers(0, 3000), st.integers(1, 200), st.binary(max_size=4))
def test_a_broken_certificate_raises_nothing(at: int, count: int, other: bytes) -> None:
    whole = MADE.certificate
    validities(whole[:at] + other + whole[at + count :])
