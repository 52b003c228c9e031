"""The web page for operators: a read model that follows etcd as a worker does, and the HTTP server that shows it.

::

    etcd ─informer─► cache ─► the wings' `page` (states, reasons, rates) ─► their views, and `alerts`; metrics: `follow`
                                                                              │ JSON, by routes; deltas, `web.stream`
    browser ◄── shell, `assets/`, the wings' modules ◄── `web.server` ◄── `access` (who may ask, from where)

`parts` puts them together, by the table of `views`. Nothing here writes to etcd or Temporal but what acts, which
exists only where that is allowed. `programs.page_process` is the process around it, `wharfinger ui` the command.
"""
