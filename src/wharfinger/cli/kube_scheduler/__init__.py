"""`wharfinger kube-scheduler`: a worker by kube-scheduler's own command line, so that it takes its place in a manifest.

`flags` has kube-scheduler's flags and what becomes of each, `feature_gates` the gates, `settings` makes a worker's
settings of them and of the file, `command` is the command itself.
"""
