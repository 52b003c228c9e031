"""Decides as KubeFleet's scheduler does, cycle by cycle: for the simulator and for comparisons."""
