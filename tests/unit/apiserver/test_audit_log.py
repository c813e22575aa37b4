"""What was asked of the embedded API server, as it is read while more comes."""

from datetime import UTC, datetime

from kubelab.access.audit_log import AuditEntry, AuditLog
from kubelab.model.calls import RequestVerb


def asked(path: str) -> AuditEntry:
    """A read that was answered."""
    return AuditEntry(datetime(2026, 1, 1, tzinfo=UTC), "GET", RequestVerb.GET, path, "alice", "", 200, 1, False)


def test_what_is_read_is_what_there_was_while_more_is_asked() -> None:
    log = AuditLog()
    for path in ("/a", "/b"):
        log.add(asked(path))
    seen = []
    for entry in log:
        log.add(asked("/later"))
        seen.append(entry.path)
    assert seen == ["/a", "/b"]
    assert len(log) == 4
