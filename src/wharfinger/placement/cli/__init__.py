"""`wharfinger placement`, `cluster` and `update-run`: placements, member clusters and staged runs."""
