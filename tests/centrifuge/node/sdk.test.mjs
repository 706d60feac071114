// The SDK of Centrifuge for JavaScript, unmodified, on every transport and in both encodings.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Centrifuge } from 'centrifuge';
import { Centrifuge as Protobuf } from 'centrifuge/build/protobuf';
import WebSocket from 'ws';

import { address, codec, kinds, onWebSocket } from './kinds.mjs';

async function api(method, params) {
  const headers = { 'X-API-Key': process.env.TIDELINE_KEY };
  const answer = await fetch(`http://${address}/api/${method}`, { method: 'POST', headers, body: JSON.stringify(params) });
  return (await answer.json()).result;
}

const once = (emitter, event) => new Promise(resolve => emitter.once(event, resolve));

// Publications in the order in which they come.
function queue(subscription) {
  const [come, waiting] = [[], []];
  subscription.on('publication', publication => {
    const next = waiting.shift();
    next ? next(publication) : come.push(publication);
  });
  return { next: () => (come.length ? Promise.resolve(come.shift()) : new Promise(resolve => waiting.push(resolve))) };
}

for (const [kind, make] of Object.entries(kinds)) {
  const { data, read } = codec(kind);

  test(`${kind}: a talk`, async () => {
    const client = make();
    const connected = once(client, 'connected');
    client.connect();
    const { client: id } = await connected;
    const room = client.newSubscription(`node-${kind}`, { joinLeave: true });
    const heard = queue(room);
    const subscribed = once(room, 'subscribed');
    room.subscribe();
    const { recoverable, streamPosition } = await subscribed;
    assert.ok(recoverable);
    await room.publish(data({ hello: kind }));
    const first = await heard.next();
    assert.deepEqual(read(first.data), { hello: kind });
    assert.equal(first.offset, 1);
    await api('publish', { channel: room.channel, data: 'two', tags: { a: 'b' } });
    const second = await heard.next();
    assert.equal(read(second.data), 'two');
    assert.deepEqual(second.tags, { a: 'b' });
    const history = await room.history({ limit: 10 });
    assert.deepEqual(history.publications.map(one => one.offset), [1, 2]);
    assert.equal(history.epoch, streamPosition.epoch);
    const { clients } = await room.presence();
    assert.ok(clients[id]);
    assert.deepEqual(await room.presenceStats(), { numClients: 1, numUsers: 1 });
    await assert.rejects(client.rpc('no.such', data({})), { code: 108 });
    // Who is away gets what was published meanwhile.
    const gone = once(client, 'disconnected');
    client.disconnect();
    await gone;
    for (;;) {
      const { num_clients: left } = await api('presence_stats', { channel: room.channel });
      if (left === 0) break;
      await new Promise(resolve => setTimeout(resolve, 5));
    }
    for (const number of [3, 4]) await api('publish', { channel: room.channel, data: number });
    const again = once(room, 'subscribed');
    client.connect();
    assert.equal((await again).recovered, true);
    assert.deepEqual([read((await heard.next()).data), read((await heard.next()).data)], [3, 4]);
    // What the server ends, is ended.
    const ended = once(client, 'disconnected');
    await api('disconnect', { user: '', disconnect: { code: 4501, reason: 'enough' } });
    assert.deepEqual(await ended, { code: 4501, reason: 'enough' });
  });

  test(`${kind}: since the beginning`, async () => {
    const channel = `node-since-${kind}`;
    for (let number = 0; number < 50; number += 1) await api('publish', { channel, data: number });
    const client = make();
    const room = client.newSubscription(channel, { since: { offset: 0, epoch: '' } });
    const heard = queue(room);
    room.subscribe();
    client.connect();
    for (let number = 0; number < 50; number += 1) {
      const publication = await heard.next();
      assert.equal(publication.offset, number + 1);
      assert.equal(read(publication.data), number);
    }
    client.disconnect();
  });
}

// Edits that come out the same each time.
function edited(words, step) {
  const pieces = ['a few words, ', 'ü', '😀', 'a sentence that is longer than what a search looks for. ', '"\\'];
  const at = (step * 7919) % words.length;
  return [...words.slice(0, at), pieces[step % pieces.length], ...words.slice(at + (step % 3))];
}

for (const kind of ['json', 'protobuf', 'sse', 'http_stream_protobuf']) {
  test(`${kind}: deltas lead to what was published`, async context => {
    const client = kinds[kind]();
    context.after(() => client.disconnect());
    const room = client.newSubscription(`node-delta-${kind}`, { delta: 'fossil' });
    const heard = queue(room);
    const subscribed = once(room, 'subscribed');
    room.subscribe();
    client.connect();
    await subscribed;
    let words = Array.from({ length: 50 }, (_, number) => `word ${number}, `);
    for (let step = 0; step < 60; step += 1) {
      words = edited(words, step);
      const sent = { text: words.join(''), step };
      await api('publish', { channel: room.channel, data: sent });
      const { data } = await heard.next();
      assert.deepEqual(codec(kind).read(data), sent);
    }
  });
}

for (const [kind, Client] of [['json', Centrifuge], ['protobuf', Protobuf]]) {
  test(`${kind}: deltas go on after a cut`, async context => {
    let [socket, bytes] = [null, 0];
    class Noted extends WebSocket {
      constructor(...options) {
        super(...options);
        socket = this;
        this.on('message', frame => {
          bytes += frame.byteLength;
        });
      }
    }
    const options = { websocket: Noted, minReconnectDelay: 20, maxReconnectDelay: 100 };
    const client = new Client(onWebSocket, options);
    context.after(() => client.disconnect());
    const room = client.newSubscription(`node-cut-${kind}`, { delta: 'fossil' });
    const heard = queue(room);
    const text = 'of this text not much changes, '.repeat(100);
    let number = 0;
    const publish = () => api('publish', { channel: room.channel, data: { text, number: (number += 1) } });
    const hear = async expected => {
      const { data, offset } = await heard.next();
      const read = codec(kind).read(data);
      assert.deepEqual([read.text, read.number, offset], [text, expected, expected]);
    };
    const subscribed = once(room, 'subscribed');
    room.subscribe();
    client.connect();
    await subscribed;
    for (let round = 0; round < 3; round += 1) {
      await publish();
      await hear(number);
      const before = bytes;
      for (let step = 0; step < 10; step += 1) {
        await publish();
        await hear(number);
      }
      assert.ok(bytes - before < text.length, `${bytes - before} bytes of ten deltas`);
      const again = once(room, 'subscribed');
      socket.terminate();
      const first = number + 1;
      for (let step = 0; step < 3; step += 1) await publish();
      const { wasRecovering, recovered } = await again;
      assert.ok(wasRecovering && recovered);
      for (let step = 0; step < 3; step += 1) await hear(first + step);
    }
  });
}
