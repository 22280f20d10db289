// node-redlock with the settings of its README, over ioredis; only the lease is conch's.
'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock');

const lease = 30000;
const gapMs = 3;  // between two clients that ask
if (process.argv.length !== 5) {
  console.error('usage: peer.js WORKLOAD PORT TASKS');
  process.exit(2);
}
const [workload, port] = process.argv.slice(2, 4);
const tasks = Number(process.argv[4]);
let gaveUp = 0;
let first;

async function connect() {
  const client = new Redis(Number(port), '127.0.0.1');
  await client.ping();
  return new Redlock([client], { driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 200 });
}

async function acquire(by, name) {
  for (;;) {
    try {
      return await by.lock('node-redlock:' + name, lease);
    } catch (error) {
      if (error.name !== 'LockError') throw error;
      ++gaveUp;
    }
  }
}

const now = () => process.hrtime.bigint();  // the same clock in all processes
const say = (line) => process.stdout.write(line + '\n');

// The critical section: slept if it is a millisecond or more, else computed.
async function work(us) {
  if (us >= 1000) {
    await new Promise((resolve) => setTimeout(resolve, us / 1000));
    return;
  }
  for (const until = performance.now() + us / 1e3; performance.now() < until;);
}

async function task(by, i, until, body) {
  const contended = workload === 'contended';
  const name = contended ? workload : `${workload}:${i}`;
  const text = [];
  let holds = 0;
  let heldMs = 0;
  for (;;) {
    const begin = performance.now();
    const lock = await acquire(by, name);
    const at = performance.now();
    if (contended) text.push(((at - begin) * 1e3).toFixed(1));
    if (body > 0) await work(body);
    const releases = performance.now();
    await lock.unlock();
    if (at >= until) break;
    ++holds;
    heldMs += releases - at;
  }
  return ['task', holds, Math.round(heldMs * 1e3), ...text].join(' ');
}

async function standInLine(by) {
  const lock = await acquire(by, workload);
  first ??= performance.now();
  await lock.unlock();
}

async function main() {
  const one = await connect();
  const many = [];
  for (let i = 0; workload === 'drain' && i < tasks; ++i) many.push(await connect());
  let held;
  let drained;
  say('ready');
  const input = require('readline').createInterface({ input: process.stdin });
  for await (const line of input) {
    const words = line.split(' ');
    switch (words[0]) {
      case 'go': {
        gaveUp = 0;
        const until = performance.now() + Number(words[1]) * 1e3;
        const all = [];
        for (let i = 0; i < Number(words[3]); ++i) all.push(task(one, i, until, Number(words[2])));
        for (const text of await Promise.all(all)) say(text);
        say(`done ${gaveUp}`);
        break;
      }
      case 'acquire':
      case 'wait':
        held = await acquire(one, workload);
        say(`took ${now()}`);
        break;
      case 'release': {
        const at = now();
        await held.unlock();
        say(`released ${at}`);
        break;
      }
      case 'arm':
        held = await acquire(one, workload);
        first = undefined;
        drained = Promise.all(many.map(async (by, i) => {
          await new Promise((resolve) => setTimeout(resolve, gapMs * i));
          return standInLine(by);
        }));
        say('armed');
        break;
      case 'drain': {
        const begin = performance.now();
        await held.unlock();
        await drained;
        say(`drained ${Math.round((performance.now() - begin) * 1e3)} ${Math.round((first - begin) * 1e3)}`);
        break;
      }
    }
  }
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
