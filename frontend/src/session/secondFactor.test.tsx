import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { RECOVERY_CODES, someFactors } from "../../mock/secondFactors.ts";
import { accessibilityFaults, open } from "../test/render";

const WITHOUT = someFactors({ authenticator_app: null, security_keys: [], recovery_codes_left: 0 });

describe("a sign-in with a second factor", () => {
  // Against: a page that opens after the password alone; a wrong code that stays in the field.
  it("asks for a code after the password, in place of it", async () => {
    const { user, container, router } = open("/login?next=%2Fquotas", { company: aCompany({ session: null }) });
    await user.type(await screen.findByRole("textbox", { name: "Login" }), "with-factor");
    await user.type(screen.getByLabelText("Password"), "right");
    await user.click(screen.getByRole("button", { name: "Sign in" }));
    const code = await screen.findByRole("textbox", { name: "Code" });
    expect(screen.queryByLabelText("Password")).toBeNull();
    expect(code).toHaveAttribute("autocomplete", "one-time-code");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.type(code, "000000");
    await user.click(screen.getByRole("button", { name: "Continue" }));
    expect(await screen.findByText(/The code is wrong/)).toBeVisible();
    expect(code).toHaveValue("");
    await user.type(code, "123456");
    await user.click(screen.getByRole("button", { name: "Continue" }));
    await waitFor(() => expect(router.state.location.pathname).toBe("/quotas"));
  });

  it("goes back to the password", async () => {
    const { user } = open("/login", { company: aCompany({ session: null }) });
    await user.type(await screen.findByRole("textbox", { name: "Login" }), "with-factor");
    await user.type(screen.getByLabelText("Password"), "right");
    await user.click(screen.getByRole("button", { name: "Sign in" }));
    await user.click(await screen.findByRole("button", { name: "Use another login" }));
    expect(screen.getByRole("textbox", { name: "Login" })).toHaveValue("");
  });
});

describe("a second factor that the organization requires", () => {
  // Against: a page behind the enrolment; codes that vanish as the session is read anew.
  it("is added before anything else, and its codes stay until they are stored", async () => {
    const session = aSession();
    const company = aCompany({ session: { ...session, user: { ...session.user, must_add_second_factor: true } }, factors: WITHOUT });
    const { user, container, requests, queryClient } = open("/jobs", { company });
    expect(await screen.findByRole("heading", { name: "Add a second factor" })).toBeVisible();
    expect(screen.getByText(/AI Company requires a second factor/)).toBeVisible();
    expect(requests.some(({ path }) => path === "/api/v1/jobs")).toBe(false);
    await user.type(await screen.findByRole("textbox", { name: "Code" }), "123456");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Add the app" }));
    expect(await screen.findByText(RECOVERY_CODES[0] ?? "")).toBeVisible();
    await queryClient.invalidateQueries({ queryKey: ["session"] });
    expect(screen.getByText(RECOVERY_CODES[0] ?? "")).toBeVisible();
    expect(screen.getByRole("link", { name: "Download" })).toHaveAttribute("download", "tidegate-recovery-codes.txt");
    await user.click(screen.getByRole("button", { name: "I have stored them" }));
    expect(await screen.findByRole("link", { name: "pretrain-13b" })).toBeVisible();
  });
});

describe("my second factor", () => {
  it("is added with the code of its key, and shows recovery codes once", async () => {
    const { user, container } = open("/access", { company: aCompany({ factors: WITHOUT }) });
    await user.click(await screen.findByRole("button", { name: "Add an authenticator app" }));
    const dialog = await screen.findByRole("dialog", { name: "Add an authenticator app" });
    expect(await within(dialog).findByRole("img", { name: "QR code of the key" })).toBeVisible();
    expect(within(dialog).getByText("JBSW Y3DP EHPK 3PXP JBSW Y3DP EHPK 3PXP")).toBeVisible();
    await user.type(within(dialog).getByRole("textbox", { name: "Code" }), "000000");
    await user.click(within(dialog).getByRole("button", { name: "Add the app" }));
    expect(await within(dialog).findByText(/The code is wrong/)).toBeVisible();
    await user.clear(within(dialog).getByRole("textbox", { name: "Code" }));
    await user.type(within(dialog).getByRole("textbox", { name: "Code" }), "123456");
    await user.click(within(dialog).getByRole("button", { name: "Add the app" }));
    const codes = await screen.findByRole("list", { name: "Recovery codes" });
    expect(within(codes).getAllByRole("listitem")).toHaveLength(RECOVERY_CODES.length);
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "I have stored them" }));
    expect(await screen.findByText("10 recovery codes left.")).toBeVisible();
  });

  // Against: a removal that sends no proof.
  it("is removed with the password", async () => {
    const { user, requests } = open("/access");
    await user.click(await screen.findByRole("button", { name: "Remove Authenticator app" }));
    const proof = await screen.findByLabelText(/Password, or a code of the app/);
    const dialog = screen.getByRole("dialog");
    await user.type(proof, "wrong");
    await user.click(within(dialog).getByRole("button", { name: "Remove" }));
    expect(await screen.findByText("This is neither the password nor the present code.")).toBeVisible();
    await user.clear(proof);
    await user.type(proof, "right");
    await user.click(within(dialog).getByRole("button", { name: "Remove" }));
    expect(await screen.findByRole("button", { name: "Add an authenticator app" })).toBeVisible();
    expect(requests.filter(({ path }) => path.endsWith("/remove")).at(-1)?.body).toEqual({ proof: "right" });
  });

  it("is not removed where the organization requires it, nor added without a password", async () => {
    const { unmount } = open("/access", { company: aCompany({ factors: someFactors({ security_keys: [], is_required: true }) }) });
    expect(await screen.findByRole("button", { name: "Remove Authenticator app" })).toBeDisabled();
    unmount();
    open("/access", { company: aCompany({ factors: { ...WITHOUT, can_enrol: false } }) });
    expect(await screen.findByText(/sign in with your organization's identity provider/)).toBeVisible();
    expect(screen.queryByRole("button", { name: "Add an authenticator app" })).toBeNull();
  });
});
