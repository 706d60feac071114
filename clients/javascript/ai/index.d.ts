// What the package gives, for TypeScript.

import type { ChatTransport, UIMessage } from "ai";
import type { Client, Entry, Subscription } from "tideline";

/** What `follow` needs of a `Chat`. */
interface Followed {
  readonly id: string;
  readonly status: string;
  messages: UIMessage[];
  resumeStream(): Promise<void>;
}

/** A transport for `useChat` and `Chat` whose chats are timelines. */
export class TidelineChatTransport<Message extends UIMessage = UIMessage> implements ChatTransport<Message> {
  constructor(options: { client: Client; timeline?: (chatId: string) => string; window_ms?: number });
  readonly resumeStreamIsReplay: true;
  sendMessages: ChatTransport<Message>["sendMessages"];
  reconnectToStream: ChatTransport<Message>["reconnectToStream"];
  /** What a chat shows up to now; an answer that is being written comes by `resumeStream`. */
  messages(chatId: string): Promise<Message[]>;
  /** Keeps a chat as its timeline is, on each tab and device; what it returns ends that. */
  follow(chat: Followed): () => void;
  /** Stops the answer that is being written, for all. */
  stop(chatId: string, reason?: string): Promise<void>;
  close(): void;
}

/** Answers what users write in a timeline; `close` of the subscription ends it. */
export function answerChat(
  client: Client,
  timeline: string,
  model: (asked: { messages: UIMessage[]; signal: AbortSignal; text: string }) => AsyncIterable<string> | Iterable<string>,
  options?: { entry?: Entry; failed?: (error: Error) => void },
): Promise<Subscription>;
