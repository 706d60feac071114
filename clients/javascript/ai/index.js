// What the package gives: the transport for pages, and what answers on a back end.

export { answerChat } from "./answering.js";
export { TidelineChatTransport } from "./transport.js";
