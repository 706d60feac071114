// What the package gives, for TypeScript. The protocol's own types are in protocol.d.ts.

import type { Conversation, Entry, Message, Methods, Pushes } from "./protocol.js";
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
export type ToldMessage = Message & { undecoded?: true };

export interface SubscribeOptions {
  rewind?: number;
  replay?: boolean | number;
  create?: boolean;
  with?: Array<"signals" | "presence" | "members" | "receipts">;
  listen?: boolean;
}

export interface Range {
  from?: number;
  to?: number;
  limit?: number;
  newest?: boolean;
}

export type AppendOptions = Omit<Methods["message.append"]["params"], "timeline" | "entry">;
export type AppendResult = { sequence: number; timestamp: number; message_id: string; epoch: string; duplicate: boolean };

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
  call<Name extends keyof Methods>(method: Name, params?: Methods[Name]["params"]): Promise<Methods[Name]["result"]>;
  conversations(): Promise<Conversations>;
  messages(timeline: string, range?: Range): Promise<ToldMessage[]>;
  forget(timeline: string): Promise<void>;
  close(): Promise<void>;
}

export interface SubscriptionEvents extends Pick<Pushes, "timeline.changed" | "signal" | "presence" | "member.changed" | "receipt"> {
  message: ToldMessage;
  changed: ToldMessage;
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
  messages(range?: Range): Promise<ToldMessage[]>;
  /** Has the messages before come as the event `older`; resolves with how many. */
  older(count?: number): Promise<number>;
  /** A method about this timeline. */
  call<Name extends keyof Methods>(method: Name, params?: Omit<Methods[Name]["params"], "timeline">): Promise<Methods[Name]["result"]>;
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
  readonly data: { retry_after_ms?: number; field?: string; limit?: number; actual?: number | string };
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
}

/** What a client keeps its messages in; messages and outbox items are plain JSON. */
export interface Store {
  timelines(): Promise<string[]>;
  place(timeline: string): Promise<StoredPlace | null>;
  get(timeline: string, sequence: number): Promise<object | null>;
  range(timeline: string, range?: Range): Promise<object[]>;
  apply(timeline: string, place: StoredPlace, messages: object[]): Promise<void>;
  forget(timeline: string, epoch?: string): Promise<void>;
  outbox(): Promise<OutboxItem[]>;
  addToOutbox(item: OutboxItem): Promise<void>;
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
