/**
 * A real OpenID Connect provider for tests, on loopback.
 *
 * Usage: node server.mjs PORT CLIENT_ID CLIENT_SECRET REDIRECT_URI
 *
 * Its people are set with PUT /test/people: {"maria": {"email": ..., "groups": [...]}}. Whoever signs
 * in types a login, and any password. It prints "ready" once it listens.
 */
import http from "node:http";

import { Provider } from "oidc-provider";

const [port, clientId, clientSecret, redirectUri] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
let people = {};

const provider = new Provider(issuer, {
  clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [redirectUri] }],
  claims: {
    openid: ["sub"],
    profile: ["name", "preferred_username"],
    email: ["email", "email_verified"],
    groups: ["groups"],
  },
  scopes: ["openid", "profile", "email", "groups"],
  pkce: { required: () => true },
  findAccount: (context, login) =>
    people[login] && { accountId: login, claims: () => ({ sub: login, preferred_username: login, ...people[login] }) },
});
const answer = provider.callback();

http
  .createServer((request, response) => {
    if (request.method === "PUT" && request.url === "/test/people") {
      let text = "";
      request.on("data", (part) => (text += part));
      request.on("end", () => {
        people = JSON.parse(text);
        response.end();
      });
      return;
    }
    answer(request, response);
  })
  .listen(Number(port), "127.0.0.1", () => console.log("ready"));
