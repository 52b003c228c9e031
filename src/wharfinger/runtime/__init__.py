"""Instance processes: started, adopted, watched and ended. No workflow, no etcd; the agent uses it."""
