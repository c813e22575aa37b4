"""The clauses (numbered requirements) that each profile examines, and those that cannot be observed from outside."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ExaminationProfile(StrEnum):
    """The parts of the specification that an operator implements, and for which it is examined.

    They are Operations with instances (GITOPS), jobs with instances (AGENT), or all of these (FULL).
    """

    GITOPS = "gitops"
    """The operator serves instances and Operations that users and GitOps tools apply."""
    AGENT = "agent"
    """The operator serves instances, and jobs of a control plane."""
    FULL = "full"


CODES: Final[Mapping[ExaminationProfile, tuple[str, ...]]] = {
    ExaminationProfile.GITOPS: ("RES", "REC", "OPS", "RUN"),
    ExaminationProfile.AGENT: ("RES", "REC", "PULL", "RUN"),
    ExaminationProfile.FULL: ("RES", "REC", "OPS", "PULL", "RUN"),
}


def place_of(clause: str) -> tuple[int, int]:
    """Return a sort key for a clause such as `REC-5`: clauses are sorted as in the specification."""
    code, _, number = clause.partition("-")
    return CODES[ExaminationProfile.FULL].index(code), int(number)


UNSEEN: Final[Mapping[str, str]] = {
    "RES-2": "the form of Operations is examined with OPS-1 to OPS-12",
    "PULL-9": "it takes keys that the operator was given; tests/conformance/test_payload_security.py examines ours",
    "PULL-11": "it is about the control plane: `conformance control-plane`",
    "RUN-6": "admission webhooks are called by the API server, not by clients",
    "RUN-7": "what an installation consists of is each operator's own",
    "RUN-8": "it is about the tests of this repository",
    "RUN-9": "it is about the embedded API server: tests/conformance",
    "RUN-10": "it is about the simulation: `simulate`",
    "RUN-13": "how shards are started is each operator's own; tests/e2e/test_shards.py examines ours",
}
"""The clauses without a check, each with the reason."""
