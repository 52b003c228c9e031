"""The loops of members' agents: join a member to its hub, and report what it has."""
