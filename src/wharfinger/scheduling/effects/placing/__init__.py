"""Places pods: lone ones, cohorts and gangs, on a snapshot of the cache."""
