"""`wharfinger config`: configuration files, and dynamic configuration in etcd."""
