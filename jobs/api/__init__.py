"""Jobs over HTTP. Each resource has a file with its view and its own serializers.

`serializers` has the serializers that several resources share. `rendering` writes the JSON of
jobs, attempts and plans.
"""
