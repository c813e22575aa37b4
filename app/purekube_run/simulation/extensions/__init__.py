"""The simulation of users' extensions: boxes and controllers, in trials (checks of required properties on one object),
scenarios (tests of a box) and plans (of the next writes).
"""
