import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { secondFactorsQuery } from "../api/queries";
import type { User } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";

/** The second factors of a person, and their reset by an administrator. */
export function FactorsOfPerson({ person }: { person: User }) {
  const queryClient = useQueryClient();
  const factors = useQuery(secondFactorsQuery(person.login));
  const [isAsking, setAsking] = useState(false);
  const reset = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/users/{user_id}/second-factors/reset", { params: { path: { user_id: person.id } } })),
    onSuccess: () => toastDone(`The second factors of ${person.login} are removed`),
    onError: toastError,
    onSettled: () => {
      setAsking(false);
      for (const key of ["second-factors", "sessions"]) void queryClient.invalidateQueries({ queryKey: [key] });
    },
  });
  return (
    <Card style={{ marginTop: 14 }}>
      <h2>Second factor of {person.login}</h2>
      <QueryView query={factors} loading={<Lines count={1} label="Loading second factors" />}>
        {({ authenticator_app: app, security_keys: keys, recovery_codes_left }) =>
          app === null && keys.length === 0 ? (
            <p className="dim">None.</p>
          ) : (
            <div className="spread">
              <p className="breaks">
                {[...(app ? ["Authenticator app"] : []), ...keys.map(({ name }) => name)].join(", ")};{" "}
                {recovery_codes_left} recovery codes left.
              </p>
              <Button variant="default" c="var(--bad)" onClick={() => setAsking(true)}>
                Reset…
              </Button>
            </div>
          )
        }
      </QueryView>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={`tidegate second-factor reset ${person.login}`} />
      </p>
      <Confirm
        isOpen={isAsking}
        title={`Reset the second factors of ${person.login}?`}
        isBusy={reset.isPending}
        isDangerous
        confirmLabel="Reset them"
        onConfirm={() => reset.mutate()}
        onClose={() => setAsking(false)}
      >
        Make sure that {person.name} asks, for example by a call. All sessions end, and the password alone signs in. Mail
        tells the person.
      </Confirm>
    </Card>
  );
}
