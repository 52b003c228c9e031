"""What etcd shows of fleets: read at one revision, and followed."""
