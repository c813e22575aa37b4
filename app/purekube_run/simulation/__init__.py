"""The parts of a world in one thread under virtual time: connections with faults, simulated controllers, laws."""
