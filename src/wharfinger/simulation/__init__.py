"""What the simulator is made of: the simulated cluster, its waiting pods, its decisions. Users import `simulator`."""
