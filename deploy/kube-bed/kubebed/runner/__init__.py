"""Runs the bed's Pods as real processes, as a kubelet and its container runtime would.

Two servers: the runtime (`runtime.py`) starts containers, reads what they print and learns how they
end; the runner (`main.py`) speaks to the API server and tells the runtime what to do. So the runner
may be killed and started again while the Pods go on.
"""
