"""Roles of the database that the launcher creates and the portal uses."""

#: The role of statements that see the rows of some organizations only. Nobody logs in as it, and
#: the role of the application may take it.
TENANT_ROLE = "tidegate_tenant"
