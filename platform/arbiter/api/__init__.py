"""What the arbiter is given and what it answers: snapshot, policy, plan."""
