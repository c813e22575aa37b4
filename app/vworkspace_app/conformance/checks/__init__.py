"""The requirements on every control plane (`docs/protocol.md`), as pytest checks of the fixture `subject`.

The control plane is the server that offers jobs to the operator.
"""
