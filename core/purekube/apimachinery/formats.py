r"""The forms of text fields in manifests, as patterns for programs and in words for people, and quantities (RES-6).

Patterns have RE2's syntax and meaning, so that CRDs can publish them too: they have no lookaround, `\d` matches only
ASCII digits, and `$` matches only at the very end.
"""

import re
from collections.abc import Mapping
from decimal import ROUND_UP, Decimal, localcontext
from functools import cache
from typing import Final

import attrs

from purekube.apimachinery.secret_material import redact

_LONGEST_QUOTED: Final = 64


@attrs.frozen
class Form:
    """The required form of a string: a pattern, and the message for a string that does not match it.

    `words` continue a sentence that begins with "must"; `example` matches the pattern. `is_told` says whether the
    message may repeat the refused text.
    """

    pattern: str
    words: str
    example: str
    is_told: bool = True

    @property
    def message(self) -> str:
        """The message for any text that does not have this form."""
        return f"must {self.words}, such as {self.example}"

    def refusal(self, text: str) -> str:
        """Return the message that refuses `text`. It quotes the text only if the form's `is_told` is true."""
        return f"{self.message}, not {quoted(text)}" if self.is_told else self.message

    def fits(self, text: str) -> bool:
        """Report whether `text` has the form."""
        return matches(self.pattern, text)


LONGEST_MATCHED: Final = 65_536
"""The number of characters beyond which no text matches: for some patterns a megabyte of text takes half a gigabyte."""


def matches(pattern: str, text: str) -> bool:
    """Report whether `text` matches `pattern`; a string longer than `LONGEST_MATCHED` does not."""
    return len(text) <= LONGEST_MATCHED and compiled(pattern).search(text) is not None


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    r"""Compile `pattern` so that Python matches it as RE2 does.

    Python's own `$` also matches before a last newline, and its `\d` matches the digits of any alphabet.
    """
    return re.compile(re.sub(r"(?<!\\)((?:\\\\)*)\$\Z", r"\1\\Z", pattern), re.ASCII)


def quoted(text: str) -> str:
    """Return a text of unknown origin in quotes for a message, shortened and without secrets."""
    clean = str(redact(text[: 4 * _LONGEST_QUOTED]))
    return repr(clean if len(clean) <= _LONGEST_QUOTED else clean[: _LONGEST_QUOTED - 1] + "…")


DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
# A part of a path: at most two dots before the first other character, so that `.` and `..` never match.
_PART: Final = r"\.{0,2}[-_a-zA-Z0-9][-._a-zA-Z0-9]*"
CHART_NAME: Final = rf"^{_PART}(/{_PART})*$"
CHART_URL: Final = r"^(oci|https?)://[^\s/]+(/\S*)?$"
_URL_PART: Final = r"(\.{0,2}[^\s/?#%\\.]|\.{3})[^\s/?#%\\]*"
# A text that is no address at all gets only that message.
PLAIN_PATH: Final = rf"^([^/]*|[a-z]+://{_URL_PART}(/{_URL_PART})*/?)$"
NO_USER: Final = r"^([^@]*|[^/]*//[^@/]*(/.*)?)$"
EXACT_SEMVER: Final = (
    r"^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$"
)
LABEL_VALUE: Final = r"^[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?$"
"""The pattern of a label value that is not empty."""
OBJECT_KEY: Final = r"^[-._a-zA-Z0-9]+$"
WEB_URL: Final = r"^https?://\S+$"
IDENTIFIER: Final = r"^[a-z][a-zA-Z0-9_]*$"
GO_DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"

_ENDS: Final = "a letter or digit at both ends"
FORMS: Final[Mapping[str, Form]] = {
    form.pattern: form
    for form in (
        Form(DNS_LABEL, f"be lower-case letters, digits and hyphens, with {_ENDS}", "nextcloud"),
        Form(DNS_SUBDOMAIN, f"be lower-case letters, digits, hyphens and dots, with {_ENDS}", "nextcloud-values"),
        Form(CHART_NAME, "be the name of a chart, with its path where it has one", "nextcloud or charts/nextcloud"),
        Form(
            CHART_URL,
            "be the address of a registry or repository",
            "oci://registry.example.com/charts or https://charts.example.com",
        ),
        # A user there would end up in the status and in Flux's messages (RES-7): the text is not repeated.
        Form(
            NO_USER,
            "not hold a user or password, which belong in a Secret that secretRef names; give the address alone",
            "oci://registry.example.com/charts",
            is_told=False,
        ),
        Form(
            PLAIN_PATH,
            "have a plain path, without empty parts, without . and .. and without the characters %, ?, # and backslash",
            "oci://registry.example.com/charts",
        ),
        Form(EXACT_SEMVER, "be one exact version, no range and no latest", "6.6.0"),
        Form(LABEL_VALUE, f"be letters, digits, hyphens, underscores and dots, with {_ENDS}", "cluster-prod-1"),
        Form(OBJECT_KEY, "be letters, digits, hyphens, underscores and dots", "values.yaml"),
        Form(WEB_URL, "be the address of a web server", "https://www.example.com"),
        Form(IDENTIFIER, "be a small letter, then letters, digits and _", "web or adminPassword"),
        Form(GO_DURATION, "be a length of time", "60s or 5m"),
    )
}


def mismatch_message(pattern: str, text: str) -> str:
    """Return the message for a `text` that does not match `pattern`. The message never repeats the pattern."""
    form = FORMS.get(pattern)
    return f"does not have the form that is asked for: {quoted(text)}" if form is None else form.refusal(text)


# apimachinery: pkg/api/resource/quantity.go. `k` is lower case and `K` is no suffix; `m` is a thousandth, `M` a
# million.
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([eE][+-]?0*\d{1,9}|[KMGTPE]i|[numkMGTPE]|)")
_FACTORS: Final = {
    "": Decimal(1),
    **{prefix: Decimal(10) ** exponent for prefix, exponent in zip("num", (-9, -6, -3), strict=True)},
    **{prefix: Decimal(1000) ** power for power, prefix in enumerate("kMGTPE", 1)},
    **{prefix + "i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", 1)},
}
_MOST: Final = Decimal(2**63 - 1)
"""The most that a quantity with a binary suffix can be."""


def parse_quantity(text: str) -> Decimal | None:
    """Return the numeric value of a Kubernetes quantity such as `1.5Gi`; None if `text` is not a quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix = match.groups()
    factor = _FACTORS.get(suffix)
    return Decimal(number + suffix) if factor is None else Decimal(number) * factor


def is_quantity(text: str) -> bool:
    """Report whether `text` is a Kubernetes quantity such as `1.5Gi`."""
    return _QUANTITY.fullmatch(text) is not None


def canonical_quantity(text: str, *, finest: int = -9) -> str | None:
    """Return a quantity as kube-apiserver writes it: `1` for `1000m`, `1Gi` for `1024Mi`. None if it is not a quantity.

    `finest` is the power of ten to whose multiples the quantity is rounded away from zero.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix = match.groups()
    # apimachinery: api/resource/quantity.go has other rules for numbers that are far above any amount of a resource.
    if len(number) > 30 or len(suffix) > 3:
        return text
    with localcontext(prec=60):
        value = parse_quantity(text)
        assert value is not None, "it has the form of a quantity"
        if suffix.endswith("i"):
            value = min(value, _MOST)
        if not value or value.adjusted() > 20:
            return text if value else "0"
        exponent = value.as_tuple().exponent
        rounded = value.quantize(Decimal(1).scaleb(finest), ROUND_UP) if exponent < finest else value  # type: ignore[operator]
        if rounded == value and _keeps_its_form(number, suffix):
            return text
        if suffix.endswith("i") and abs(rounded) >= 1024 and rounded == rounded.to_integral_value():
            return _binary(int(rounded))
        return _decimal(rounded, exponential=suffix[:1] in ("e", "E") and len(suffix) > 1)


def _keeps_its_form(number: str, suffix: str) -> bool:
    """Report whether ParseQuantity takes a text for canonical without a closer look, and so keeps it as it is."""
    whole, _, fraction = number.lstrip("+-").partition(".")
    digits = (whole.lstrip("0") or "0") + fraction
    if suffix.endswith("i"):
        # The precision that the fast path needs: 15 digits, less those of number and suffix.
        power = 10 * ("KMGTPE".index(suffix[0]) + 1)
        return not fraction and 14 - len(digits) - power * 3 // 10 >= 0 and int(digits) & 7 != 0
    exponent = int(suffix[1:]) if suffix[1:] else {"n": -9, "u": -6, "m": -3, "": 0}.get(suffix)
    if exponent is None:
        exponent = 3 * ("kMGTPE".index(suffix) + 1)
    places = exponent - len(fraction)
    return len(digits) <= 18 and places >= -9 and not places % 3 and not digits.endswith("000") and digits[0] != "0"


def _binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < 6:
        value, power = value // 1024, power + 1
    return f"{value}{' KMGTPE'[power]}i" if power else str(value)


def _decimal(value: Decimal, *, exponential: bool) -> str:
    sign, digits, exponent = value.normalize().as_tuple()
    assert isinstance(exponent, int), "a quantity is finite"
    missing = exponent % 3
    mantissa = f"{'-' if sign else ''}{''.join(map(str, digits))}{'0' * missing}"
    power = exponent - missing
    if exponential:
        return f"{mantissa}e{power}" if power else mantissa
    return mantissa + {-9: "n", -6: "u", -3: "m", 0: ""}.get(power, "kMGTPE"[power // 3 - 1] if 0 < power <= 18 else "")
