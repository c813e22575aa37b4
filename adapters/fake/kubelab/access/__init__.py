"""Access to the embedded API server: authorization, RBAC, access reviews, the audit log."""
