// A client of each kind follows the channel "room" through whatever becomes of the server, and says what it hears: a
// line of JSON each, which begins with its kind. Once it hears "new" it says the history, and publishes what it is.

import { codec, kinds } from './kinds.mjs';

for (const [kind, make] of Object.entries(kinds)) {
  const { data, read } = codec(kind);
  const say = (event, what) => console.log(JSON.stringify([kind, event, what]));
  const told = publication => [publication.offset, read(publication.data)];
  const client = make({ minReconnectDelay: 50, maxReconnectDelay: 200 });
  const room = client.newSubscription('room');
  room.on('subscribed', ({ wasRecovering, recovered, streamPosition }) => {
    say('subscribed', { wasRecovering, recovered, ...streamPosition });
  });
  room.on('publication', async publication => {
    say('publication', told(publication));
    if (read(publication.data) !== 'new') return;
    const { publications, epoch, offset } = await room.history({ limit: 100 });
    say('history', { epoch, offset, publications: publications.map(told) });
    await room.publish(data(kind));
  });
  room.subscribe();
  client.connect();
}
