"""What every process of wharfinger does: connect, name itself, poll Temporal, notice an outage, stop."""
