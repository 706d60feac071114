// The official Node SDK, as it is, against the server named by TIDELINE_ENDPOINT: every operation that it has and we have,
// and what only it of the two SDKs sends: returned increments, filters that page columns, times of versions as Long.
//
// Node's own test runner runs it; tests/suites/tablestore.rs installs the SDK and says where it is.
'use strict';

const assert = require('node:assert/strict');
const test = require('node:test');
const TableStore = require('tablestore');

const { Long, Direction, INF_MIN, INF_MAX, PK_AUTO_INCR, ReturnType, RowExistenceExpectation } = TableStore;
const options = {
  accessKeyId: 'development',
  secretAccessKey: 'development',
  endpoint: process.env.TIDELINE_ENDPOINT,
  instancename: 'tideline',
};
const client = new TableStore.Client(options);
const ignore = new TableStore.Condition(RowExistenceExpectation.IGNORE, null);
const exist = new TableStore.Condition(RowExistenceExpectation.EXPECT_EXIST, null);
let numbers = 0;

function index(name, primaryKey, definedColumn) {
  const { IndexUpdateMode, IndexType } = TableStore;
  return {
    name, primaryKey, definedColumn, indexUpdateMode: IndexUpdateMode.IUM_ASYNC_INDEX, indexType: IndexType.IT_GLOBAL_INDEX,
  };
}

async function makeTable(primaryKey, tableOptions = {}, more = {}, indexMetas = undefined) {
  const tableName = `node_${++numbers}`;
  await client.createTable({
    tableMeta: { tableName, primaryKey, ...more },
    indexMetas,
    reservedThroughput: { capacityUnit: { read: 0, write: 0 } },
    tableOptions: { timeToLive: -1, maxVersions: 1, ...tableOptions },
  });
  return tableName;
}

const textKey = [{ name: 'k', type: 'STRING' }];
const key = (text) => [{ k: text }];

function plain(value) {
  return Long.isLong && Long.isLong(value) ? value.toNumber() : value && value.toNumber ? value.toNumber() : value;
}

/** A row's attributes as [name, value], or null where there is no row. */
async function get(tableName, primaryKey, more = {}) {
  const { row } = await client.getRow({ tableName, primaryKey, maxVersions: 1, ...more });
  return row.primaryKey ? row.attributes.map(({ columnName, columnValue }) => [columnName, plain(columnValue)]) : null;
}

function refused(status, text) {
  // The SDK reads an error's body as XML; what it can't read becomes the message as it is.
  return (error) => {
    assert.equal(error.code, status);
    assert.ok(error.message.includes(text), error.message);
    return true;
  };
}

test('tables', async () => {
  const tableName = await makeTable(
    [{ name: 's', type: 'STRING' }, { name: 'n', type: 'INTEGER', option: 'AUTO_INCREMENT' }, { name: 'b', type: 'BINARY' }],
    { timeToLive: 86400, maxVersions: 3, maxTimeDeviation: 1000, allowUpdate: true },
  );
  let told = await client.describeTable({ tableName });
  assert.deepEqual(told.tableMeta.primaryKey.map(({ name, type, option }) => [name, type, option]), [
    ['s', 2, told.tableMeta.primaryKey[0].option],
    ['n', 1, 1],
    ['b', 3, told.tableMeta.primaryKey[2].option],
  ]);
  assert.equal(told.tableOptions.timeToLive, 86400);
  assert.equal(told.tableOptions.maxVersions, 3);
  assert.equal(plain(told.tableOptions.deviationCellVersionInSec), 1000);
  assert.equal(told.streamDetails.enableStream, false);
  assert.ok((await client.listTable({})).tableNames.includes(tableName));
  const updated = await client.updateTable({
    tableName,
    tableOptions: { maxVersions: 5 },
    reservedThroughput: { capacityUnit: { read: 2, write: 3 } },
  });
  assert.equal(updated.tableOptions.maxVersions, 5);
  assert.equal(updated.tableOptions.timeToLive, 86400);
  assert.deepEqual({ ...updated.reservedThroughputDetails.capacityUnit }, { read: 2, write: 3 });
  await client.deleteTable({ tableName });
  await assert.rejects(client.describeTable({ tableName }), refused(404, 'Requested table does not exist.'));
  await assert.rejects(client.describeTable({ tableName: 'a-b' }), refused(400, "Invalid table name: 'a-b'."));
});

test('a row of every type', async () => {
  const tableName = await makeTable(textKey);
  const attributeColumns = [
    { binary: Buffer.from([0, 255]) },
    { boolean: true },
    { double: 2.5 },
    { integer: Long.fromNumber(-7) },
    { string: '潮 🌊' },
  ];
  const { consumed } = await client.putRow({ tableName, condition: ignore, primaryKey: key('a'), attributeColumns });
  assert.deepEqual({ ...consumed.capacityUnit }, { read: 0, write: 1 });
  const found = Object.fromEntries(await get(tableName, key('a')));
  assert.deepEqual([...found.binary], [0, 255]);
  assert.deepEqual([found.boolean, found.double, found.integer, found.string], [true, 2.5, -7, '潮 🌊']);
  await client.deleteRow({ tableName, condition: exist, primaryKey: key('a') });
  assert.equal(await get(tableName, key('a')), null);
  await assert.rejects(
    client.deleteRow({ tableName, condition: exist, primaryKey: key('a') }),
    refused(403, 'Condition check failed.'),
  );
});

test('updates, and increments that are returned', async () => {
  const tableName = await makeTable(textKey, { maxVersions: 3 });
  const now = Long.fromNumber(Date.now());
  const update = (changes, more = {}) =>
    client.updateRow({
      tableName, condition: ignore, primaryKey: key('a'), updateOfAttributeColumns: changes, ...more,
    });
  await update([{ PUT: [{ c: 'x', timestamp: now }, { d: 'y' }, { n: Long.fromNumber(40) }] }]);
  await update([{ DELETE: [{ c: now }] }, { DELETE_ALL: ['d'] }]);
  assert.deepEqual(await get(tableName, key('a')), [['n', 40]]);
  const returnContent = { returnColumns: ['n'], returnType: ReturnType.AfterModify };
  const { row } = await update([{ INCREMENT: [{ n: Long.fromNumber(2) }] }], { returnContent });
  assert.deepEqual(row.attributes.map(({ columnName, columnValue }) => [columnName, plain(columnValue)]), [['n', 42]]);
  await assert.rejects(
    update([{ PUT: [{ c: 'x' }] }], { returnContent: { returnColumns: ['c'], returnType: ReturnType.AfterModify } }),
    refused(400, 'c'),
  );
  assert.deepEqual(await get(tableName, key('a')), [['n', 42]]);
});

test('numbers given by the server', async () => {
  const tableName = await makeTable([{ name: 'p', type: 'STRING' }, { name: 'n', type: 'INTEGER', option: 'AUTO_INCREMENT' }]);
  for (const number of [1, 2, 3]) {
    const { row } = await client.putRow({
      tableName,
      condition: ignore,
      primaryKey: [{ p: 'a' }, { n: PK_AUTO_INCR }],
      attributeColumns: [{ c: 'x' }],
      returnContent: { returnType: ReturnType.Primarykey },
    });
    assert.deepEqual(row.primaryKey.map(({ value }) => plain(value)), ['a', number]);
  }
});

test('ranges', async () => {
  const tableName = await makeTable([{ name: 'n', type: 'INTEGER' }]);
  const rows = Array.from({ length: 30 }, (_, n) => ({
    type: 'PUT', condition: ignore, primaryKey: [{ n: Long.fromNumber(n) }], attributeColumns: [{ c: Long.fromNumber(n) }],
  }));
  const { tables } = await client.batchWriteRow({ tables: [{ tableName, rows }] });
  assert.ok(tables.length === 30 && tables.every(({ isOk }) => isOk));
  for (const [direction, from, to, expected] of [
    [Direction.FORWARD, INF_MIN, INF_MAX, rows.map((_, n) => n)],
    [Direction.BACKWARD, INF_MAX, INF_MIN, rows.map((_, n) => 29 - n)],
  ]) {
    const found = [];
    let start = [{ n: from }];
    while (start) {
      const page = await client.getRange({
        tableName, direction, inclusiveStartPrimaryKey: start, exclusiveEndPrimaryKey: [{ n: to }], limit: 7,
      });
      found.push(...page.rows.map(({ primaryKey }) => plain(primaryKey[0].value)));
      start = page.nextStartPrimaryKey && [{ n: page.nextStartPrimaryKey[0].value }];
    }
    assert.deepEqual(found, expected);
  }
  await assert.rejects(
    client.getRange({
      tableName, direction: Direction.FORWARD, inclusiveStartPrimaryKey: [{ n: INF_MAX }], exclusiveEndPrimaryKey: [{ n: INF_MIN }],
    }),
    refused(400, 'Begin key must less than end key in FORWARD'),
  );
});

test('filters, and pages of columns', async () => {
  const tableName = await makeTable(textKey);
  const names = ['a', 'b', 'c', 'd', 'e'];
  await client.putRow({
    tableName, condition: ignore, primaryKey: key('a'), attributeColumns: names.map((name) => ({ [name]: name })),
  });
  const page = (limit, offset) =>
    get(tableName, key('a'), { columnFilter: new TableStore.ColumnPaginationFilter(limit, offset) });
  assert.deepEqual(await page(2, 1), [['b', 'b'], ['c', 'c']]);
  assert.deepEqual(await page(9, 4), [['e', 'e']]);
  const single = (name, value) =>
    new TableStore.SingleColumnCondition(name, value, TableStore.ComparatorType.EQUAL, false);
  const both = new TableStore.CompositeCondition(TableStore.LogicalOperator.AND);
  both.addSubCondition(single('a', 'a'));
  both.addSubCondition(single('b', 'b'));
  assert.equal((await get(tableName, key('a'), { columnFilter: both })).length, 5);
  assert.equal(await get(tableName, key('a'), { columnFilter: single('a', 'other') }), null);
  assert.deepEqual(await get(tableName, key('a'), { columnsToGet: ['d', 'unknown'] }), [['d', 'd']]);
});

test('batches', async () => {
  const tableName = await makeTable(textKey);
  const answers = await client.batchWriteRow({
    tables: [
      {
        tableName,
        rows: [
          { type: 'PUT', condition: ignore, primaryKey: key('a'), attributeColumns: [{ n: Long.fromNumber(1) }] },
          { type: 'UPDATE', condition: exist, primaryKey: key('missing'), attributeColumns: [{ PUT: [{ c: 'x' }] }] },
          { type: 'DELETE', condition: ignore, primaryKey: key('missing') },
        ],
      },
      {
        tableName: 'no_such_table',
        rows: [{ type: 'PUT', condition: ignore, primaryKey: key('a'), attributeColumns: [{ c: 'x' }] }],
      },
    ],
  });
  assert.deepEqual(answers.tables.map(({ isOk, errorCode, errorMessage }) => isOk || `${errorCode}: ${errorMessage}`), [
    true,
    'OTSConditionCheckFail: Condition check failed.',
    true,
    'OTSObjectNotExist: Requested table does not exist.',
  ]);
  const returned = await client.batchWriteRow({
    tables: [
      {
        tableName,
        rows: [
          {
            type: 'UPDATE',
            condition: exist,
            primaryKey: key('a'),
            attributeColumns: [{ INCREMENT: [{ n: Long.fromNumber(4) }] }],
            returnContent: { returnColumns: ['n'], returnType: ReturnType.AfterModify },
          },
        ],
      },
    ],
  });
  assert.equal(plain(returned.tables[0].attributes[0].columnValue), 5);
  const read = await client.batchGetRow({
    tables: [{ tableName, primaryKey: [key('missing'), key('a')] }, { tableName: 'no_such_table', primaryKey: [key('a')] }],
  });
  const [[missing, found], [nowhere]] = read.tables;
  assert.ok(missing.isOk && missing.primaryKey === null);
  assert.equal(plain(found.attributes[0].columnValue), 5);
  assert.equal(nowhere.errorCode, 'OTSObjectNotExist');
});

test('secondary indexes', async () => {
  const mainTableName = await makeTable([{ name: 'g', type: 'INTEGER' }], {}, {
    definedColumn: [{ name: 's', type: 4 }, { name: 'n', type: 1 }],
  }, [index('node_by_s', ['s'], ['n'])]);
  const put = (g, s) =>
    client.putRow({
      tableName: mainTableName, condition: ignore, primaryKey: [{ g: Long.fromNumber(g) }],
      attributeColumns: [{ s }, { n: Long.fromNumber(10 * g) }],
    });
  await put(1, 'b');
  await put(2, 'a');
  await client.createIndex({ mainTableName, indexMeta: index('node_by_n', ['n'], []), includeBaseData: true });
  const inOrder = async (tableName, names) => {
    const bounds = (end) => names.map((name) => ({ [name]: end }));
    const range = {
      tableName, direction: Direction.FORWARD, maxVersions: 1,
      inclusiveStartPrimaryKey: bounds(INF_MIN), exclusiveEndPrimaryKey: bounds(INF_MAX),
    };
    for (;;) {
      try {
        const { rows } = await client.getRange(range);
        return rows.map(({ primaryKey }) => primaryKey.map(({ value }) => plain(value)));
      } catch (error) {
        assert.ok(error.message.includes('Disallow read index table in building base state'), error.message);
      }
    }
  };
  assert.deepEqual(await inOrder('node_by_s', ['s', 'g']), [['a', 2], ['b', 1]]);
  assert.deepEqual(await inOrder('node_by_n', ['n', 'g']), [[10, 1], [20, 2]]);
  assert.deepEqual(await get('node_by_s', [{ s: 'a' }, { g: Long.fromNumber(2) }]), [['n', 20]]);
  const told = await client.describeTable({ tableName: mainTableName });
  assert.deepEqual(told.indexMetas.map(({ name, primaryKey }) => [name, primaryKey]), [['node_by_s', ['s']], ['node_by_n', ['n']]]);
  await client.dropIndex({ mainTableName, indexName: 'node_by_n' });
  await assert.rejects(client.describeTable({ tableName: 'node_by_n' }), refused(404, 'Requested table does not exist.'));
  await assert.rejects(
    client.deleteRow({ tableName: 'node_by_s', condition: ignore, primaryKey: [{ s: 'a' }, { g: Long.fromNumber(2) }] }),
    refused(400, "Can't write index table directly."),
  );
  const { indices } = await client.listSearchIndex({ tableName: mainTableName });
  assert.deepEqual(indices, []);
});

test('transactions', async () => {
  const tableName = await makeTable([{ name: 'k', type: 'STRING' }, { name: 'n', type: 'INTEGER' }]);
  const row = (number) => [{ k: 'a' }, { n: Long.fromNumber(number) }];
  const put = (number, text, more = {}) =>
    client.putRow({ tableName, condition: ignore, primaryKey: row(number), attributeColumns: [{ c: text }], ...more });
  const begin = async () => (await client.startLocalTransaction({ tableName, primaryKey: key('a') })).transactionId;
  await put(1, 'before');
  let transactionId = await begin();
  await put(1, 'after', { transactionId });
  await client.updateRow({
    tableName, transactionId, condition: ignore, primaryKey: row(2), updateOfAttributeColumns: [{ PUT: [{ c: 'new' }] }],
  });
  await client.batchWriteRow({
    transactionId,
    tables: [{ tableName, rows: [{ type: 'PUT', condition: ignore, primaryKey: row(3), attributeColumns: [{ c: 'batch' }] }] }],
  });
  await client.deleteRow({ tableName, transactionId, condition: ignore, primaryKey: row(3) });
  assert.deepEqual(await get(tableName, row(1), { transactionId }), [['c', 'after']]);
  assert.deepEqual(await get(tableName, row(1)), [['c', 'before']]);
  const range = async (more) => {
    const page = await client.getRange({
      tableName, direction: Direction.FORWARD, maxVersions: 1, limit: 9, ...more,
      inclusiveStartPrimaryKey: [{ k: 'a' }, { n: INF_MIN }], exclusiveEndPrimaryKey: [{ k: 'a' }, { n: INF_MAX }],
    });
    return page.rows.map(({ attributes }) => attributes[0].columnValue);
  };
  assert.deepEqual(await range({ transactionId }), ['after', 'new']);
  assert.deepEqual(await range({}), ['before']);
  await client.commitTransaction({ transactionId });
  assert.deepEqual(await range({}), ['after', 'new']);
  await assert.rejects(client.commitTransaction({ transactionId }), refused(400, 'Session not exist or may be timeout.'));
  transactionId = await begin();
  await put(1, 'never', { transactionId });
  await client.abortTransaction({ transactionId });
  assert.deepEqual(await range({}), ['after', 'new']);
  await assert.rejects(client.abortTransaction({ transactionId: 'x' }), refused(400, 'TransactionID is invalid.'));
});

test('a wrong secret', async () => {
  const wrong = new TableStore.Client({ ...options, secretAccessKey: 'wrong' });
  await assert.rejects(wrong.listTable({}), refused(403, 'Signature mismatch.'));
});

test('a table with a stream; the SDK has no method that reads one', async () => {
  const tableName = 'node_streamed';
  await client.createTable({
    tableMeta: { tableName, primaryKey: textKey },
    reservedThroughput: { capacityUnit: { read: 0, write: 0 } },
    tableOptions: { timeToLive: -1, maxVersions: 1 },
    streamSpecification: { enableStream: true, expirationTime: 24 },
  });
  const told = async () => (await client.describeTable({ tableName })).streamDetails;
  const first = await told();
  assert.deepEqual([first.enableStream, first.expirationTime], [true, 24]);
  const { streamDetails } = await client.updateTable({
    tableName, tableOptions: {}, streamSpecification: { enableStream: false },
  });
  assert.equal(streamDetails.enableStream, false);
  await client.updateTable({
    tableName, tableOptions: {}, streamSpecification: { enableStream: true, expirationTime: 168 },
  });
  const second = await told();
  assert.deepEqual([second.enableStream, second.expirationTime], [true, 168]);
  assert.ok(first.streamId && second.streamId && first.streamId !== second.streamId);
  await client.deleteTable({ tableName });
});
