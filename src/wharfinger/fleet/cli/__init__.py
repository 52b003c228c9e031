"""`wharfinger fleet` and `wharfinger host`: scheduler instances and the machines that run them."""
