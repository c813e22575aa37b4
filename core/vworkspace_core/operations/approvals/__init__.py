"""The approvals of Operations: claims that permit one run, and the record of used ones (OPS-4)."""
