"""Nodes are cordoned, emptied and let in again."""
