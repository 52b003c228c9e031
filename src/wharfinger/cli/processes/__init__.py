"""Options that commands of processes share, and running a server to its end."""
