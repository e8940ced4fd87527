// What the TypeScript peers' clients share: call, check, count, print one line of JSON; the same as drive.py.
import { createRequire } from "node:module";
import { join } from "node:path";

/** Loads a package from where setup.sh installed the peer. */
export const peer = createRequire(join(process.env.PEER, "package.json"));

export const [, , transport, target, length] = process.argv;

const WARM_UP = "50";
const IN_FLIGHT = 32;

function* numbers(length) {
  const end = length.endsWith("s") ? performance.now() + Number(length.slice(0, -1)) * 1000 : Infinity;
  const count = end === Infinity ? Number(length) : Infinity;
  for (let number = 0; number < count && performance.now() < end; number++) yield number;
}

async function measure(call, length, workers) {
  const remaining = numbers(length);
  let done = 0;
  const work = async () => {
    for (let step = remaining.next(); !step.done; step = remaining.next()) {
      const text = `hello ${step.value}`;
      const got = await call(text);
      if (got !== text) {
        console.error(`wrong answer: ${got} for ${text}`);
        process.exit(1);
      }
      done++;
    }
  };
  const used = process.cpuUsage();
  const began = performance.now();
  await Promise.all(Array.from({ length: workers }, work));
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(used);
  return [done / seconds, (user + system) / done];
}

/** Measures `echo` through an open client and prints the figures; `began` is when it started to connect. */
export async function drive(call, began, version) {
  const connected = performance.now() - began;
  await measure(call, WARM_UP, 1);
  const [seq, cpu_us_seq] = await measure(call, length, 1);
  const [conc32, cpu_us_conc] = await measure(call, length, IN_FLIGHT);
  console.log(JSON.stringify({ seq, conc32, connect_ms: connected, cpu_us_seq, cpu_us_conc, version }));
}
