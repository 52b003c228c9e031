"""`wharfinger dev` and `wharfinger demo`."""
