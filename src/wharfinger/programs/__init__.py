"""Processes that are started: worker, agent, hub, member and page, each put together of what it runs."""
