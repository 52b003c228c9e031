"""Places, binds, refuses and evicts pods: lone ones, cohorts and gangs."""
