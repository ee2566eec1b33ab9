"""The outputs of Pods, stored in files."""
