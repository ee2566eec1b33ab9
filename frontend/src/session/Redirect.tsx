import { useRouter } from "@tanstack/react-router";
import { useEffect } from "react";

/**
 * Goes to an address of this site, once. The router's own Navigate goes again at every drawing,
 * which never ends while the page behind the address is still being loaded.
 */
export function Redirect({ href }: { href: string }) {
  const router = useRouter();
  useEffect(() => {
    router.history.replace(href);
  }, [router, href]);
  return null;
}
