/** What the page for logins of machines reads. */
import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";

/** The login with this code. Each wrong code counts, so that nothing asks twice. */
export const deviceLoginQuery = (code: string) =>
  queryOptions({
    queryKey: ["device-login", code],
    retry: false,
    staleTime: Infinity,
    gcTime: 0,
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/device-logins/{user_code}", { params: { path: { user_code: code } }, signal })),
  });
