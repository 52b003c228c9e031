"""What the page knows: etcd followed into a read model, metrics read from processes, and whether both still answer."""
