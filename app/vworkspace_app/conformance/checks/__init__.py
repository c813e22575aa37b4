"""The requirements on every control plane (`docs/protocol.md`), as pytest checks of the fixture `subject`."""
