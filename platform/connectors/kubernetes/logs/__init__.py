"""What Pods write, kept in files."""
