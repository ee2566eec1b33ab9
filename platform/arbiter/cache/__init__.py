"""The state of one pool for a cycle: attempts, claims, free devices and protection."""
