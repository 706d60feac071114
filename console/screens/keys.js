// API keys, by which back ends call without being a user: made here, shown once, revoked here.
//
// Owns: that list, and the forms that make and revoke a key. Promises: a secret is shown once and kept nowhere; nothing is
// revoked before its name was typed. Must not: show or ask for a secret otherwise.

import { h, write } from "../dom.js";
import { age, many, visible, when } from "../format.js";
import { server } from "../server.js";
import { ask, show } from "../dialog.js";
import { empty, load } from "../states.js";
import { asOf, button, pairs, split } from "../split.js";
import { copy } from "../timelines/message.js";

const grants = (rights) => rights.map(({ on, allow }) => `${on}=${allow.join(",")}`);
const kind = ({ signing, certificate }) => [signing && "signs for Tablestore", certificate && "with a certificate"].filter(Boolean).join(", ") || "–";

const cells = (it) => [
  h("span", { class: "name" }, visible(it.name), it.id === server.status?.you.key && h("em", { class: "chip" }, "yours")),
  h("code", {}, it.id),
  h("code", {}, visible(grants(it.rights).join("  "))),
  h("span", {}, visible(it.act_as.join(", ")) || "–"),
  h("span", {}, kind(it)),
  h("span", { class: "n" }, age(it.created_at)),
];

/** "room/*=read,append" of each line. */
function grantsOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return lines.map((line) => {
    const at = line.lastIndexOf("=");
    if (at < 1) throw new Error(`“${line}” is not like room/*=read,append`);
    return { on: line.slice(0, at).trim(), allow: line.slice(at + 1).split(",").map((right) => right.trim()).filter(Boolean) };
  });
}

const NO_AUTH = [
  "This server asks nobody for a key",
  "Its settings have no [auth], so everybody who reaches it may do everything. A key is what a back end or an operator shows where [auth] is set. The first one is made with the server stopped, and makes all others:",
  "tideline key create admin --allow '*=admin' --data ./data > admin.key",
];

export const screen = {
  async open({ root, view, signal, go, keys }) {
    await server.known;
    if (signal.aborted) return;
    if (server.status?.auth === false) return void root.append(without());
    const page = split({
      root, name: "key", label: "Keys",
      bar: [h("p", {}, "What back ends and operators show. A user shows a token."), button("Create a key", { key: "append", kind: "primary", onclick: create })],
      heads: [["Name"], ["ID"], ["May do"], ["Acts for"], ["Kind"], ["Age", "n"]],
      render: cells,
      id: ({ id }) => id,
      open: detail,
      go: (id) => go({ path: id === null ? [] : [id] }, { replace: true }),
    });
    const { rows } = page;
    keys({ ...page.keys, append: create, recall: () => rows.item && revoke(rows.item) });

    function detail(it) {
      return [
        page.heading(visible(it.name)),
        pairs(
          ["ID", h("code", {}, it.id)], ["Made", [when(it.created_at), h("i", {}, ` ${age(it.created_at)}`)]],
          ["Acts for", visible(it.act_as.join(", "))], ["Certificate", it.certificate && visible(it.certificate)], ["Tablestore", it.signing && "signs its requests"],
        ),
        h("h3", {}, "What it may do"),
        h("ul", { class: "grants" }, it.rights.map(({ on, allow }) => h("li", {}, h("code", {}, visible(on)), h("span", {}, allow.map((right) => h("em", { class: "chip" }, visible(right))))))),
        h("div", { class: "acts" }, button("Revoke", { key: "recall", kind: "danger", onclick: () => revoke(it) })),
      ];
    }

    async function create() {
      const made = await ask({
        title: "Create a key",
        text: "Its secret is shown once, in the next step. Give it no more rights than it needs.",
        fields: [
          { name: "name", label: "Name", required: true, mono: true, hint: "Letters, digits, . _ and -. Several keys may share a name." },
          { name: "rights", label: "What it may do", type: "area", rows: 3, required: true, mono: true, value: "room/*=read,append", hint: "A line for each: names, =, rights. A * at the end is any end; *=admin is everything." },
          { name: "act_as", label: "Users that it may act for", mono: true, hint: "Users, or prefixes and *, with commas between. Empty: none." },
          { name: "certificate", label: "Only with the client certificate of", mono: true, hint: "A DNS name. Empty: no certificate is asked for." },
          { name: "signing", label: "Tablestore's requests are signed with it", type: "check" },
        ],
        action: "Create",
        submit: (said) =>
          server.call("key.create", {
            name: said.name.trim(),
            rights: grantsOf(said.rights),
            act_as: said.act_as.split(",").map((user) => user.trim()).filter(Boolean),
            certificate: said.certificate.trim() || undefined,
            signing: said.signing,
          }, { signal }).then(({ id, key }) => ({ id, key, name: said.name.trim() })),
      });
      if (!made) return;
      await showSecret(made);
      await read();
      go({ path: [made.id] }, { replace: true });
    }

    async function showSecret({ name, key }) {
      const secret = h("code", {}, key);
      const said = h("span", { role: "status" });
      const select = () => getSelection().selectAllChildren(secret);
      const onclick = async () => write(said, (await copy(key, select)) ? "Copied" : "Selected: copy it with your browser");
      await show({
        title: `The key ${visible(name)}`,
        text: "Copy it now: the server keeps only a hash of it, and nobody can show it again.",
        body: h("div", { class: "secret" }, h("pre", { tabindex: "0" }, secret), h("button", { type: "button", onclick }, "Copy"), said),
        action: "I have it",
      });
    }

    async function revoke(it) {
      const done = await ask({
        title: `Revoke the key ${visible(it.name)}?`,
        text: `ID ${it.id}, made ${when(it.created_at)}.`,
        lost: "Its sessions are closed at once, and whoever shows it is refused from now on. This can't be undone: a new key has another secret.",
        type_name: it.name,
        action: "Revoke",
        danger: true,
        submit: () => server.call("key.revoke", { id: it.id }, { signal }),
      });
      if (done) read();
    }

    let shown = false;
    const read = () =>
      load(page.body, () => server.call("key.list", {}, { signal }), ({ keys: said }) => {
        shown = true;
        if (said.length === 0) return empty("No keys", "A key is what a back end or an operator shows. None was made yet.", "tideline key create shop --allow 'room/*=read,append'");
        page.show(said.sort((a, b) => b.created_at - a.created_at), `${many(said.length, "key")}, ${asOf()}`);
        showDetail();
      }, { signal, keep: shown });

    const showDetail = () => page.named(view.path[0] || null) || page.named(null);

    await read();
    rows.element.focus({ preventScroll: true });
    return { resume: read, update: (wanted) => ((view = wanted), showDetail()) };
  },
};

const without = () =>
  empty(...NO_AUTH, h("p", {}, "Then set [auth] in tideline.toml and start the server with --config tideline.toml; docs/ACCESS.md goes from nothing to tokens, keys and TLS, line by line."));
