"""The simulator: a cluster in memory on which pods are decided. Users import `wharfinger.simulator`."""
