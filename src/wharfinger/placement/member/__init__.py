"""The loops of members' agents: join a member to its hub, apply works, and report what it has."""
