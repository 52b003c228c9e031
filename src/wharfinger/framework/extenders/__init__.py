"""Calls to HTTP extenders: what is sent and answered, TLS, and the order of the calls that one decision takes.

::

              consulting ─question─► asking ─► calls ─► (HTTP) ─► extender      one question, several calls
                       ◄─verdicts──    └────► wire                              what the bytes mean

What extenders are is `objects.model.extenders`; decisions are `extenders.consulting`.
"""
