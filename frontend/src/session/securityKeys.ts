/** Security keys and passkeys in the browser (WebAuthn). */

/** Can this browser and address use security keys? They need https or localhost, and a current browser. */
export function canUseKeys(): boolean {
  return (
    globalThis.isSecureContext &&
    "PublicKeyCredential" in globalThis &&
    "parseCreationOptionsFromJSON" in PublicKeyCredential
  );
}

/** The answer of a new key to the server's challenge. Throws when the person cancels. */
export async function registerKey(options: Record<string, unknown>): Promise<Record<string, unknown>> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as unknown as PublicKeyCredentialCreationOptionsJSON);
  return answerOf(() => navigator.credentials.create({ publicKey }));
}

/** The answer of a known key to the server's challenge. Throws when the person cancels. */
export async function askKey(options: Record<string, unknown>): Promise<Record<string, unknown>> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as unknown as PublicKeyCredentialRequestOptionsJSON);
  return answerOf(() => navigator.credentials.get({ publicKey }));
}

async function answerOf(ask: () => Promise<Credential | null>): Promise<Record<string, unknown>> {
  let credential: Credential | null;
  try {
    credential = await ask();
  } catch (error) {
    const isKnown = error instanceof DOMException && error.name === "InvalidStateError";
    throw new Error(
      isKnown ? "This security key is in use already. Use another one." : "The security key gave no answer. Try again.",
      { cause: error },
    );
  }
  return (credential as PublicKeyCredential).toJSON() as Record<string, unknown>;
}
