"""The requirements of the agent on a control plane, as pytest checks that the control plane's owner can run (PULL-11).

`subject` describes the control plane and what can be requested of it, `checks` holds the checks, `examined` runs them.
"""
