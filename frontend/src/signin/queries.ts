/** What the sign-in settings of an organization read. */
import { queryOptions } from "@tanstack/react-query";

import { ApiError, client, unwrap } from "../api/client";
import { readWhole, WHOLE_LIMIT } from "../api/queries";
import type { IdentityProvider } from "../api/types";

/** The identity provider; null where there is none yet. */
export const identityProviderQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["identity", "provider", organizationId],
    queryFn: async ({ signal }): Promise<IdentityProvider | null> => {
      try {
        return await unwrap(
          client.GET("/api/v1/organizations/{organization_id}/identity-provider", {
            params: { path: { organization_id: organizationId } },
            signal,
          }),
        );
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null;
        throw error;
      }
    },
  });

/** The groups that give roles, all of them. */
export const groupMappingsQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["identity", "mappings", organizationId],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(
          client.GET("/api/v1/organizations/{organization_id}/group-mappings", {
            params: { path: { organization_id: organizationId }, query: { limit: WHOLE_LIMIT, cursor } },
            signal,
          }),
        ),
      ),
  });

/** Whether the organization requires a second factor. */
export const signInPolicyQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["identity", "policy", organizationId],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/sign-in-policy", {
          params: { path: { organization_id: organizationId } },
          signal,
        }),
      ),
  });

/** The settings of SCIM, its last contact, and what it pushed. */
export const scimQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["identity", "scim", organizationId],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/organizations/{organization_id}/scim", {
          params: { path: { organization_id: organizationId } },
          signal,
        }),
      ),
  });

/** The tokens for SCIM, all of them, newest first. */
export const scimTokensQuery = (organizationId: string) =>
  queryOptions({
    queryKey: ["identity", "scim-tokens", organizationId],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(
          client.GET("/api/v1/organizations/{organization_id}/scim/tokens", {
            params: { path: { organization_id: organizationId }, query: { limit: WHOLE_LIMIT, cursor } },
            signal,
          }),
        ),
      ),
  });
