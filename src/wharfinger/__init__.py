"""wharfinger: a durable pod scheduler on etcd and Temporal."""
