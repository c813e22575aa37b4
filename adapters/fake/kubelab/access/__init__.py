"""The access control of the embedded API server: RBAC authorization, access reviews, impersonation, audit log."""
