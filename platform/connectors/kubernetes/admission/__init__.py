"""Admission: our vote in Kueue, the gate for native workloads, and reasons why Pods are refused."""
