"""SCIM 2.0: an identity provider pushes the people and groups of an organization."""
