"""The controller of ApplicationInstances, which turns each instance into Flux objects."""
