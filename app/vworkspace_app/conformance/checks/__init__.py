"""What every control plane must do for an agent (`docs/protocol.md`), as pytest checks of the fixture `subject`."""
