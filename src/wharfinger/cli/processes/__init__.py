"""Commands that start processes: worker, agent, dev and demo."""
