"""`wharfinger simulate` and `wharfinger capacity`."""
