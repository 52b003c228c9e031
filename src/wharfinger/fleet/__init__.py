"""Instances of wharfinger's scheduler on hosts: wanted in etcd, planned by a pure planner, replaced slot by slot."""
