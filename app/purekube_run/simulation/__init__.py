"""The simulation of clusters in one thread on virtual time: connections with faults, simulated controllers, checks."""
