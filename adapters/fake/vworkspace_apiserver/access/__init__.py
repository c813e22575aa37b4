"""Who may do what on the embedded API server: authorization, RBAC, access reviews, the audit log."""
