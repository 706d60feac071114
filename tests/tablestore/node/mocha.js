// What the SDK's own tests take from mocha, by Node's test runner: `describe` and `it`, one test after the other.
'use strict';

const test = require('node:test');

global.describe = (name, body) => test.describe(name, () => body.call({ timeout() {} }));
global.it = test.it;
