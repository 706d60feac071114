// The SDK of Centrifuge for JavaScript, unmodified: a client of every transport and in both encodings.

import { Centrifuge } from 'centrifuge';
import { Centrifuge as Protobuf } from 'centrifuge/build/protobuf';
import EventSource from 'eventsource';
import WebSocket from 'ws';

export const address = process.env.TIDELINE_ADDRESS;
export const onWebSocket = `ws://${address}/connection/websocket`;
const by = transport => [{ transport, endpoint: `http://${address}/connection/${transport}` }];
const emulated = { fetch, readableStream: ReadableStream, eventsource: EventSource, emulationEndpoint: `http://${address}/emulation` };

export const kinds = {
  json: options => new Centrifuge(onWebSocket, { websocket: WebSocket, ...options }),
  protobuf: options => new Protobuf(onWebSocket, { websocket: WebSocket, ...options }),
  http_stream: options => new Centrifuge(by('http_stream'), { ...emulated, ...options }),
  http_stream_protobuf: options => new Protobuf(by('http_stream'), { ...emulated, ...options }),
  sse: options => new Centrifuge(by('sse'), { ...emulated, ...options }),
};

// Data as clients of a kind take it, and as they give it.
export const codec = kind => {
  const isProtobuf = kind.includes('protobuf');
  return {
    data: value => (isProtobuf ? new TextEncoder().encode(JSON.stringify(value)) : value),
    read: value => (isProtobuf ? JSON.parse(new TextDecoder().decode(value)) : value),
  };
};
