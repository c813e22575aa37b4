"""The requirements of the agent on a control plane, as pytest checks that the control plane's owner can run (PULL-11).

The control plane is the server that offers jobs to the operator. `subject` is the interface to the control plane under
test, `checks` has the checks, and `examined` runs them.
"""
