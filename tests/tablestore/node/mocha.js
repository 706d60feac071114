// What the SDK's own tests take from mocha, by Node's test runner: one test after the other, which may call back when it
// is done. How long a test may take is said by whoever starts all of them.
'use strict';

const test = require('node:test');

const self = { timeout() {} };
const run = (body) => (body.length > 0 ? (_, done) => body.call(self, done) : () => body.call(self));

global.describe = (name, body) => test.describe(name, () => body.call(self));
global.it = (name, body) => test.it(name, run(body));
global.after = (body) => test.after(run(body));
