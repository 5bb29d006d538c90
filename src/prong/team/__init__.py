"""Many agents: background work and what becomes of it."""
