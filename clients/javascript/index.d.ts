// What the package gives, for TypeScript. The protocol's own types are in protocol.d.ts.

import type { Conversation, Entry, Message, Methods, Outcome, Pushes } from "./protocol.js";
export type * from "./protocol.js";

type Listener<Detail> = (detail: Detail) => void;

export interface ClientOptions {
  /** Who sends, where the server asks nobody who they are. */
  user?: string;
  /** A token or API key, or what gets one. */
  token?: string | (() => string | null | undefined | Promise<string | null | undefined>);
  device?: string;
  store?: Store | Promise<Store>;
  WebSocket?: unknown;
  /** In place of `JSON.parse`. */
  parse?: (text: string) => unknown;
  /** The least and the most between two attempts, ms. */
  delay_ms?: [number, number];
  /** How long a silent line is waited for, ms. */
  patience_ms?: number;
}

export type ConnectionState = "new" | "connecting" | "open" | "waiting" | "stopped" | "closed";

export interface ClientEvents extends Pushes {
  state: { state: ConnectionState; code?: number | null; retry_in_ms?: number; error?: Error | null };
  stopped: { code: number | null; error: Error | null };
  kept: { timeline: string; message_id: string; entry: Entry };
  /** Of a message, or a change, that an earlier run left. */
  sent: { timeline: string; message_id: string; sequence: number; epoch: string } | Change;
  refused: ({ timeline: string; message_id: string } | Change) & { reason: string; error: TidelineError };
}

/** A call that is kept and repeated until it is answered. */
export interface Change {
  timeline: string;
  method: keyof Methods;
  params: object;
}

/** `undecoded`: nested too deeply, or with a number beyond every double, so `entry` is left empty. */
export type ToldMessage = (Message & { open?: false | null; undecoded?: true }) | OpenMessage;

/** A message whose text grows, as it was when it was told; iterated, it gives its text in parts until it is closed. */
export interface OpenMessage extends Message, AsyncIterable<string> {
  open: true | { column: string };
  parts: number;
  undecoded?: true;
  /** The text as far as it was told. */
  readonly text: string;
  /** The message as it was told last. */
  readonly newest: ToldMessage;
}

export interface SubscribeOptions {
  rewind?: number;
  replay?: boolean | number;
  create?: boolean;
  with?: Array<"signals" | "presence" | "members" | "receipts" | "parts">;
  /** Parts of messages that grow may gather for so long on the server, ms, up to 1,000; only with "parts". */
  window_ms?: number;
  listen?: boolean;
}

export interface Range {
  from?: number;
  to?: number;
  limit?: number;
  newest?: boolean;
}

export interface CallOptions {
  /** The step of a trace that it is a part of, as W3C's Trace Context writes it. */
  traceparent?: string | null;
}
export type AppendOptions = Omit<Methods["message.append"]["params"], "timeline" | "entry"> & CallOptions;
export type AppendResult = { sequence: number; timestamp: number; message_id: string; epoch: string; duplicate: boolean };

export interface OpenOptions extends Omit<AppendOptions, "open" | "deliver_at"> {
  /** The column that grows; default `text`. */
  column?: string;
  /** Without a part for so long the server closes it as `failed`, ms. */
  idle_ms?: number;
}

/** A message that is written while others read it. */
export interface Answer {
  readonly timeline: string;
  readonly message_id: string;
  /** Its number; null until the server has it. */
  readonly sequence: number | null;
  /** How many parts the server has on disk. */
  readonly parts: number;
  /** The text that it had when this run began to write. */
  readonly text: string;
  /** Resolves when the server has the message, and with a `message_id` of before, when it is known behind which text it goes on. */
  readonly opened: Promise<{ sequence: number; epoch: string; text: string; parts: number }>;
  /** Is aborted when the message can't be written any more; its `reason` says why. */
  readonly signal: AbortSignal;
  /** Throws if the message can't be written any more; resolves when the text is in the store and there is room for more. */
  write(text: string): Promise<void>;
  finish(how?: { outcome?: Outcome; set?: Methods["message.finish"]["params"]["set"]; remove?: string[] }): Promise<Message>;
}

export class Client {
  constructor(url: string, options?: ClientOptions);
  readonly state: ConnectionState;
  readonly session: Methods["session.open"]["result"] | null;
  readonly outbox: Array<{ timeline: string; message_id: string; entry: Entry }>;
  readonly changes: Change[];
  on<Name extends keyof ClientEvents>(event: Name, listener: Listener<ClientEvents[Name]>): () => void;
  reconnect(): Promise<void>;
  subscribe(timeline: string, options?: SubscribeOptions): Promise<Subscription>;
  append(timeline: string, entry: Entry, options: AppendOptions & { deliver_at: number }): Promise<{ scheduled: string; deliver_at: number }>;
  append(timeline: string, entry: Entry, options?: AppendOptions): Promise<AppendResult>;
  open(timeline: string, entry?: Entry, options?: OpenOptions): Answer;
  call<Name extends keyof Methods>(method: Name, params?: Methods[Name]["params"], options?: CallOptions): Promise<Methods[Name]["result"]>;
  conversations(): Promise<Conversations>;
  messages(timeline: string, range?: Range): Promise<ToldMessage[]>;
  forget(timeline: string): Promise<void>;
  close(): Promise<void>;
}

export interface SubscriptionEvents extends Pick<Pushes, "timeline.changed" | "signal" | "presence" | "member.changed" | "receipt"> {
  message: ToldMessage;
  changed: ToldMessage;
  extended: { timeline: string; message: OpenMessage; from: number; parts: number; text: string };
  older: { timeline: string; messages: ToldMessage[] };
  live: { timeline: string };
  caught_up: { timeline: string; head: number };
  reset: { timeline: string; reason: string };
  too_old: { timeline: string; floor: number };
  ended: { timeline: string; reason: string };
}

export interface Subscription {
  readonly timeline: string;
  readonly position: number;
  readonly head: number;
  on<Name extends keyof SubscriptionEvents>(event: Name, listener: Listener<SubscriptionEvents[Name]>): () => void;
  append(entry: Entry, options: AppendOptions & { deliver_at: number }): Promise<{ scheduled: string; deliver_at: number }>;
  append(entry: Entry, options?: AppendOptions): Promise<AppendResult>;
  open(entry?: Entry, options?: OpenOptions): Answer;
  messages(range?: Range): Promise<ToldMessage[]>;
  /** Has the messages before come as the event `older`; resolves with how many. */
  older(count?: number): Promise<number>;
  /** A method about this timeline. */
  call<Name extends keyof Methods>(method: Name, params?: Omit<Methods[Name]["params"], "timeline">, options?: CallOptions): Promise<Methods[Name]["result"]>;
  close(): Promise<void>;
}

export interface Conversations {
  readonly list: Conversation[];
  get(timeline: string): Conversation | null;
  on(event: "changed", listener: Listener<{ conversations: Conversation[]; removed: string[] }>): () => void;
  on(event: "live", listener: Listener<{}>): () => void;
  on(event: "ended", listener: Listener<{ reason: string }>): () => void;
  close(): void;
}

export class TidelineError extends Error {
  readonly reason: string;
  readonly code: number | null;
  readonly retry: boolean;
  readonly data: { retry_after_ms?: number; field?: string; limit?: number; actual?: number | string } & Closed;
}

/** Of a message that can't be written any more (`message_closed`). */
export interface Closed {
  outcome?: Outcome;
  parts?: number;
  /** Who stopped it, and why. */
  stopped_by?: string;
  why?: string;
  abandoned?: true;
}

export interface StoredPlace {
  epoch: string;
  /** The lowest that the server had when it was last asked. */
  floor?: number;
  first: number;
  after: number;
  changes: number;
}

export interface OutboxItem {
  timeline: string;
  message_id: string;
  order: number;
  /** Absent = `message.append`. */
  method?: string;
  params: object;
  traceparent?: string;
}

/** What a writer has of its message beside it: where it is, parts, the end. */
export interface AnswerItem {
  timeline: string;
  message_id: string;
  /** The message's ID. */
  answer: string;
  order: 0;
}

/** Parts of an open message. */
export interface Growth {
  epoch: string;
  sequence: number;
  from: number;
  parts: number;
  text: string;
}

/** What a client keeps its messages in; messages and outbox items are plain JSON. */
export interface Store {
  timelines(): Promise<string[]>;
  place(timeline: string): Promise<StoredPlace | null>;
  get(timeline: string, sequence: number): Promise<object | null>;
  range(timeline: string, range?: Range): Promise<object[]>;
  apply(timeline: string, place: StoredPlace, messages: object[]): Promise<void>;
  /** `message` is the message with these parts. */
  grow(timeline: string, growth: Growth, message: object): Promise<void>;
  forget(timeline: string, epoch?: string): Promise<void>;
  outbox(): Promise<Array<OutboxItem | AnswerItem>>;
  addToOutbox(item: OutboxItem | AnswerItem): Promise<void>;
  removeFromOutbox(item: Pick<OutboxItem, "timeline" | "message_id">): Promise<void>;
  close(): Promise<void>;
}

export interface MemoryStore extends Store {}
export class MemoryStore {}
export interface IndexedDbStore extends Store {}
export class IndexedDbStore {
  private constructor();
  static open(name?: string): Promise<IndexedDbStore>;
}
