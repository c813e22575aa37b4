"""What a control plane must do for the agent, as a pytest module that its owner can run (PULL-11).

`subject` says what is examined and what can be asked of it, `suite` holds the checks, `command` runs them.
"""
