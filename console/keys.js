// Every key of the console, in one table: what is pressed, what it does, and where.
//
// Owns: the table, and which handler a key reaches: the dialog's or palette's, the screen's, the frame's, in that
// order. Promises: nothing is taken from a field but Escape, which leaves it, nor with Ctrl, Alt or Meta but for Ctrl K and Ctrl Enter;
// help and tooltips are made from this table. Must not: know what a screen does.

/** name → keys (as `event.key`; two in a row with a space between), what it does, its group. */
export const KEYS = {
  find: { keys: ["Ctrl K"], does: "Find a timeline, user, table or session", group: "Everywhere" },
  search: { keys: ["/"], does: "The field of this screen; else find", group: "Everywhere" },
  hold: { keys: ["Space"], does: "Hold the figures, and go on", group: "Everywhere" },
  theme: { keys: ["t"], does: "Light or dark", group: "Everywhere" },
  help: { keys: ["?"], does: "All keys", group: "Everywhere" },
  overview: { keys: ["g o"], does: "Overview", group: "Screens" },
  timelines: { keys: ["g t"], does: "Timelines", group: "Screens" },
  conversations: { keys: ["g c"], does: "Conversations", group: "Screens" },
  lookup: { keys: ["g f"], does: "Search", group: "Screens" },
  tables: { keys: ["g b"], does: "Tables", group: "Screens" },
  sql: { keys: ["g q"], does: "SQL", group: "Screens" },
  sessions: { keys: ["g s"], does: "Sessions", group: "Screens" },
  partitions: { keys: ["g p"], does: "Partitions", group: "Screens" },
  keys: { keys: ["g k"], does: "Keys", group: "Screens" },
  log: { keys: ["g l"], does: "Log", group: "Screens" },
  next: { keys: ["j", "ArrowDown"], does: "Next row", group: "Lists" },
  previous: { keys: ["k", "ArrowUp"], does: "Previous row", group: "Lists" },
  open: { keys: ["Enter"], does: "Open", group: "Lists" },
  back: { keys: ["Escape"], does: "Back", group: "Lists" },
  oldest: { keys: ["Home"], does: "Oldest, first", group: "Lists" },
  newest: { keys: ["End"], does: "Newest, last", group: "Lists" },
  page_back: { keys: ["["], does: "Page back", group: "Lists" },
  page_on: { keys: ["]"], does: "Page on", group: "Lists" },
  run: { keys: ["Ctrl Enter"], does: "Run the statement", group: "SQL" },
  go_to: { keys: ["#"], does: "Go to a sequence or time", group: "Messages" },
  follow: { keys: ["f"], does: "Follow what comes", group: "Messages" },
  append: { keys: ["a"], does: "Append, add", group: "Messages" },
  edit: { keys: ["e"], does: "Edit", group: "Messages" },
  recall: { keys: ["r"], does: "Recall, remove", group: "Messages" },
  copy: { keys: ["c"], does: "Copy as JSON", group: "Messages" },
  link: { keys: ["y"], does: "Copy a link to this view", group: "Messages" },
};

const SHOWN = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };

/** How a key is written: "Ctrl K", "g t", "↓". */
export const shown = (key) => SHOWN[key] ?? key;

/** The first key of an action, as it is written. */
export const hint = (name) => shown(KEYS[name].keys[0]);

/** A tooltip: "Hold the figures, and go on (Space)". */
export const tip = (name, does = KEYS[name].does) => `${does} (${KEYS[name].keys.map(shown).join(" or ")})`;

const BY_KEY = new Map(Object.entries(KEYS).flatMap(([name, { keys }]) => keys.map((key) => [key, name])));
const FIRST = new Set([...BY_KEY.keys()].filter((key) => /^\w \w$/.test(key)).map((key) => key[0]));
const FIRST_MS = 1500;

const layers = []; // {handlers, alone}: the newest is asked first; one that is alone lets nothing through
let first = null;

/** Takes keys, by the names of the table, until the signal ends. Handlers: name → function(event). The first layer that
 *  has a handler gets the key. `alone`: what it has no handler for reaches nobody (dialogs). */
export function take(handlers, { signal, alone = false } = {}) {
  const layer = { handlers, alone };
  layers.unshift(layer);
  signal?.addEventListener("abort", () => layers.splice(layers.indexOf(layer), 1), { once: true });
}

const writes = (element) => element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));

/** The name of what a key event asks for, or null. */
function named(event) {
  const { key, ctrlKey, metaKey, altKey, target } = event;
  const held = (ctrlKey || metaKey) && !altKey;
  if (held && key.toLowerCase() === "k") return "find";
  if (held && key === "Enter") return "run";
  if (ctrlKey || metaKey || altKey) return null;
  if (writes(target)) return key === "Escape" ? "back" : null;
  // A button or link that has the focus keeps Enter and Space.
  if ((key === "Enter" || key === " ") && target instanceof HTMLElement && target.closest("a, button, summary")) return null;
  if (first && performance.now() - first.at < FIRST_MS) {
    const both = BY_KEY.get(`${first.key} ${key}`);
    first = null;
    if (both) return both;
  }
  if (FIRST.has(key)) {
    first = { key, at: performance.now() };
    return null;
  }
  return BY_KEY.get(key === " " ? "Space" : key) ?? null;
}

/** The list that a field is for has the focus next, so that the next key moves in it. */
const leave = (field) => (field.closest("aside, section, main")?.querySelector(".rows") ?? field.closest("main"))?.focus();

export function pressed(event) {
  if (event.defaultPrevented || event.isComposing) return;
  const name = named(event);
  if (!name) return;
  if (name === "back" && writes(event.target) && !layers[0].alone) return leave(event.target);
  for (const { handlers, alone } of layers) {
    if (handlers[name]) {
      event.preventDefault();
      handlers[name](event);
      return;
    }
    if (alone) return;
  }
}
