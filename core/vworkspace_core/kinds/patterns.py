"""The forms that texts of a manifest have, as regular expressions that the CRDs publish too."""

from typing import Final

__all__ = ["CHART_NAME", "CHART_URL", "DNS_LABEL", "DNS_SUBDOMAIN", "EXACT_SEMVER", "LABEL_VALUE"]

DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
CHART_NAME: Final = r"^[-._a-zA-Z0-9]+(/[-._a-zA-Z0-9]+)*$"
# No user information before the host: a password there would end up in status and in Flux's messages (RES-7).
CHART_URL: Final = r"^(oci|https?)://[^\s@/]+(/\S*)?$"
EXACT_SEMVER: Final = (
    r"^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$"
)
LABEL_VALUE: Final = r"^[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?$"
"""The form of a label value that is not empty."""
