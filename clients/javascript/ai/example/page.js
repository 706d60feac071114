// The page of the example: useChat of the AI SDK on Tideline, without a back end of its own for the chat.

import "./csp.js";
import { Chat, useChat } from "@ai-sdk/react";
import { createElement as h, useEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { Client, IndexedDbStore } from "tideline";
import { TidelineChatTransport } from "tideline-ai";

const id = decodeURIComponent(location.hash.slice(1)) || "harbour";
const url = new URL("/v1/connect", location.href.replace(/^http/, "ws")).href;
const client = new Client(url, { user: "ann", store: IndexedDbStore.open("tideline-chat-ann"), delay_ms: [100, 500] });
const transport = new TidelineChatTransport({ client });
const chat = new Chat({ id, transport, messages: await transport.messages(id) });

function Message({ role, parts, metadata }) {
  const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  const stopped = metadata?.outcome && h("small", {}, metadata.stopped_by ? `stopped by ${metadata.stopped_by}` : metadata.outcome);
  return h("div", { className: `bubble ${role === "user" ? "mine" : "theirs"}` }, h("p", {}, text), stopped);
}

function App() {
  const { messages, sendMessage, status, error } = useChat({ chat });
  const [line, setLine] = useState(client.state);
  const [text, setText] = useState("");
  const end = useRef(null);
  useEffect(() => transport.follow(chat), []);
  useEffect(() => client.on("state", ({ state }) => setLine(state)), []);
  useEffect(() => void end.current?.scrollIntoView(), [messages]);
  const is_busy = status === "submitted" || status === "streaming";
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) sendMessage({ text });
    setText("");
  };
  return h(
    "section",
    { className: "pane", "data-line": line === "open" ? "good" : "warn", "data-status": status },
    h("header", {}, h("h2", {}, "A model that recites"), h("p", { className: "state", role: "status" }, line === "open" ? (is_busy ? "Answering" : "Live") : "No answer from the server")),
    h("div", { className: "talk", role: "log", tabIndex: 0, "aria-label": "The chat" }, messages.map((message) => h(Message, { key: message.id, ...message })), error && h("p", { className: "note bad" }, error.message), h("span", { ref: end })),
    h(
      "form",
      { onSubmit: submit },
      h("input", { "aria-label": "Write to the model", placeholder: "Ask something", autoComplete: "off", value: text, onChange: (event) => setText(event.target.value) }),
      h("button", { type: "submit", disabled: is_busy }, "Send"),
      h("button", { type: "button", id: "stop", disabled: !is_busy, onClick: () => transport.stop(id) }, "Stop"),
    ),
  );
}

createRoot(document.getElementById("chat")).render(h(App));
