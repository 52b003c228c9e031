"""The web page for operators: a read model that follows etcd as a worker does, and the HTTP server that shows it.

::

    etcd ─informer─► cache ─► `model` (states, reasons, rates) ─► `overview`, `pending`, `node_map`, `pods`, ...
                                                                        │ JSON, by `api`; deltas, by `stream`
    browser ◄── shell, modules and style of `assets/` ◄── `server` ◄── `guard` (who may ask, from where)

Nothing here writes to etcd or Temporal but `actions`, which exist only where they are allowed. `page_process` is the
process around it, `wharfinger ui` the command.
"""
