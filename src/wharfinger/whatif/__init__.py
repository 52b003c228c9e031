"""What would happen: objects and changes in, decisions for every pod and the cluster's use out. Nothing is changed."""
