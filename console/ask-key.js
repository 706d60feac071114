// The dialog for a key, where the server asks for a credential.
//
// Owns: its form. Promises: the key stays in memory; in sessionStorage only if that is asked for. Must not: put it into
// a URL, a cookie or localStorage.

import { ask } from "./dialog.js";
import { server } from "./server.js";

let asking = false;

export async function askKey() {
  if (asking) return;
  asking = true;
  const said = await ask({
    title: "This server asks who you are",
    text: server.has_key ? "The key that you have shown is not valid, or no longer." : "Show an API key that has the right observe, or a token.",
    fields: [
      { name: "key", label: "Key", type: "secret", required: true, mono: true },
      { name: "keep", label: "Keep it until this tab is closed", type: "check" },
    ],
    action: "Connect",
  });
  asking = false;
  if (said) server.use(said.key.trim(), { keep: said.keep });
}
