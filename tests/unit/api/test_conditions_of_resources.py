"""RES-4: of what an object's status holds the conditions count that are well-formed; the rest is left alone."""

from purekube.apimachinery.structuring import read_own_conditions

GOOD = {"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_conditions_are_read_one_by_one() -> None:
    found = read_own_conditions({"status": {"conditions": [GOOD, {"type": 7}, "none", {**GOOD, "type": "Other"}]}})

    assert [(one.type, one.status, one.reason) for one in found] == [("Ready", "True", "Up"), ("Other", "True", "Up")]
    assert read_own_conditions({"status": {"conditions": "none"}}) == read_own_conditions({}) == ()
