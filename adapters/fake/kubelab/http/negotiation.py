"""Content negotiation: the form of answer that a client accepts, and whether it may be compressed."""

from collections.abc import Iterator
from enum import Enum
from typing import Final

import attrs

from kubelab.model.failure import ApiFailure


class AnswerForm(Enum):
    """The forms in which an object, a list or discovery can be answered."""

    OBJECT = "object"
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"
    PARTIAL_LIST = "PartialObjectMetadataList"
    DISCOVERY = "APIGroupDiscoveryList"


@attrs.frozen
class AcceptedForm:
    """A form, the version of its API group, and whether as YAML instead of JSON."""

    form: AnswerForm
    version: str = "v1"
    yaml: bool = False

    @property
    def content_type(self) -> str:
        """The Content-Type of an answer in this form."""
        if self.form is AnswerForm.DISCOVERY:
            return f"application/json;g=apidiscovery.k8s.io;v={self.version};as={self.form.value}"
        return "application/yaml" if self.yaml else "application/json"


_ACCEPTABLE: Final = (
    "only the following media types are accepted: application/json, application/yaml, "
    "application/json;as=Table;g=meta.k8s.io;v=v1"
)
_VERSIONS: Final = {AnswerForm.DISCOVERY: ("v2", "v2beta1")}


def media_type(header: str) -> str:
    """Return the bare media type of a Content-Type header."""
    return header.partition(";")[0].strip().lower()


def wanted_form(accept: str, forms: frozenset[AnswerForm]) -> AcceptedForm:
    """Return the first form of an Accept header that is among `forms`. Raises ApiFailure 406."""
    for kind, parameters in _clauses(accept or "*/*"):
        if kind not in {"application/json", "application/yaml", "application/*", "*/*"}:
            continue
        named = parameters.get("as")
        if named is None:
            return AcceptedForm(AnswerForm.OBJECT, yaml=kind == "application/yaml")
        form = next((form for form in forms if form.value == named), None)
        version = parameters.get("v", "v1")
        if form is not None and version in _VERSIONS.get(form, ("v1",)):
            return AcceptedForm(form, version)
    raise ApiFailure(406, "NotAcceptable", _ACCEPTABLE)


def wants_gzip(accept_encoding: str) -> bool:
    """Report whether the client accepts a gzipped answer."""
    return any(part.partition(";")[0].strip() == "gzip" for part in accept_encoding.split(","))


def _clauses(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for clause in accept.split(","):
        kind, *parameters = (part.strip() for part in clause.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield kind.lower(), {key.strip(): value.strip() for key, _, value in pairs}
