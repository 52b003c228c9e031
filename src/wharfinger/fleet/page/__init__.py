"""The page's view of fleets."""
