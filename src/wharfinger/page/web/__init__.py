"""The page over HTTP: server, addresses of the JSON, the stream of changes, actions, and the files for browsers."""
