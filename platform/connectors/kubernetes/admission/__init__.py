"""Who may start: our word in Kueue, the gate for what others submit, and what refuses Pods."""
