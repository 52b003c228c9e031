"""Processes that a process starts: found again, limited, ended; and the locks and ports that they need."""
