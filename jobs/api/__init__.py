"""Jobs over HTTP, a file for each resource: its view and the shapes that only it has.

`serializers` has the shapes that several share, `rendering` writes jobs, attempts and plans.
"""
