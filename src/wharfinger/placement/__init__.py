"""Resources on member clusters: placements are decided as KubeFleet decides them, rolled out, delivered and applied."""
