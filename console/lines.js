// Lines of the server's log.
//
// Owns: one read of `log.tail`, and how a line is written in one row. Must not: keep lines.

import { visible } from "./format.js";
import { server } from "./server.js";

/** One read of the log: {lines, next, dropped}. */
export const readLog = ({ after, level, wait_ms, signal }) =>
  server.call("log.tail", { ...(after !== undefined && { after }), ...(level && { level }), ...(wait_ms && { wait_ms }) }, { signal });

/** A line as one text: the message, then its fields. */
export const lineText = ({ message, fields }) =>
  visible([message, ...Object.entries(fields ?? {}).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)].join("  "));
