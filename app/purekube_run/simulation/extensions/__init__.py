"""The simulation of users' extensions: boxes and controllers, in trials, scenarios and plans."""
