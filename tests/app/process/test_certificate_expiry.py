"""The expiry that is read from certificates in PEM form."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.http.authority import LIFETIME, certificates_for
from purekube.apimachinery.certificates import expiries

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
def test_the_expiry_is_that_which_the_certificate_has(name: str, end: datetime) -> None:
    made = certificate(name, end - timedelta(hours=1), end)
    assert expiries(made) == (end,)
    assert expiries(b"text\n" + made + MADE.authority) == (end, NOW + LIFETIME)


@given(st.binary(max_size=200))
@example(b"")
@example(b"-----BEGIN CERTIFICATE-----AAAA-----END CERTIFICATE-----")
@example(b"-----BEGIN CERTIFICATE-----A-----END CERTIFICATE-----")
def test_what_is_no_certificate_has_no_expiry(text: bytes) -> None:
    assert expiries(text) == ()


@given(st.integers(0, 3000), st.integers(1, 200), st.binary(max_size=4))
def test_a_broken_certificate_raises_nothing(at: int, count: int, other: bytes) -> None:
    whole = MADE.certificate
    expiries(whole[:at] + other + whole[at + count :])
