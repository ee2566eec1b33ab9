"""Input and output of the arbiter: snapshot, policy, plan."""
