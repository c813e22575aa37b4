"""The controller of Operations: backups, restores, upgrades and other tasks that users or the control plane request."""
