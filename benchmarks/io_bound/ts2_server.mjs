// The TypeScript SDK v2: `node ts2_server.mjs PORT`. PEER is the folder its packages are installed in.
// createMcpHandler serves both eras without sessions, with a server made for each request: its documented way.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";

const peer = createRequire(join(process.env.PEER, "package.json"));
const z = peer("zod/v4");
const { McpServer, createMcpHandler } = peer("@modelcontextprotocol/server");
const { toNodeHandler } = peer("@modelcontextprotocol/node");
const { Redis } = peer("ioredis");

const redis = new Redis(process.env.REDIS_URL);
const API = process.env.API_URL;
const json = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });
const get = async (path) => (await fetch(API + path)).json();
const post = async (path, value) => {
  const headers = { "Content-Type": "application/json" };
  return (await fetch(API + path, { method: "POST", headers, body: JSON.stringify(value) })).json();
};
const numberOf = (member) => Number(member.slice(member.indexOf(":") + 1));

const SEARCH = z.object({ category: z.string(), min_price: z.number(), max_price: z.number(), limit: z.number().int() });
const USER = z.object({ user_id: z.string() });
const ITEM = z.object({ product_id: z.number().int(), quantity: z.number().int() });
const PURCHASE = z.object({ user_id: z.string(), items: z.array(ITEM) });

async function search({ category, min_price, max_price, limit }) {
  const query = new URLSearchParams({ category, min_price, max_price, limit });
  const [found, popular] = await Promise.all([
    get(`/products/search?${query}`),
    redis.zrevrange("bench:popular", 0, 9),
  ]);
  const numbers = popular.map(numberOf);
  const ranks = new Map(numbers.map((number, place) => [number, place + 1]));
  const products = found.products.map(({ id, sku, name, price, rating }) => {
    return { id, sku, name, price, rating, popularity_rank: ranks.get(id) ?? 0 };
  });
  return json({ category, total_found: found.total_found, products, top10_popular_ids: numbers });
}

async function cart({ user_id }) {
  const kept = await redis.hgetall(`bench:cart:${user_id}`);
  const items = JSON.parse(kept.items);
  const [, orders] = await Promise.all([
    get(`/products/${items[0].product_id}`),
    redis.lrange(`bench:history:${user_id}`, 0, 4),
  ]);
  return json({
    user_id,
    cart: { items, item_count: items.length, estimated_total: Number(kept.total) },
    recent_history: orders.map((order) => JSON.parse(order)),
  });
}

async function checkout({ user_id, items }) {
  const number = Number(user_id.slice(user_id.indexOf("-") + 1)) % 100;
  const commands = redis
    .pipeline()
    .incr(`bench:ratelimit:user-${String(number).padStart(5, "0")}`)
    .rpush(`bench:history:${user_id}`, JSON.stringify({ user_id, items }))
    .zincrby("bench:popular", 1, `product:${items[0].product_id}`);
  const [total, done] = await Promise.all([post("/cart/calculate", { user_id, items }), commands.exec()]);
  return json({
    order_id: total.order_id,
    user_id,
    total: total.total,
    items_count: items.length,
    rate_limit_count: done[0][1],
    status: "confirmed",
  });
}

function make() {
  const server = new McpServer({ name: "shop", version: "1" });
  const tool = (name, description, inputSchema, body) => server.registerTool(name, { description, inputSchema }, body);
  tool("search_products", "Search products by category and price, with their rank among the popular ones.", SEARCH, search);
  tool("get_user_cart", "Return the cart of a user, with the orders before it.", USER, cart);
  tool("checkout", "Buy items: calculate the total, count the purchase, record the order.", PURCHASE, checkout);
  tool("echo", "Return the name of the user.", USER, async ({ user_id }) => json({ user_id }));
  tool("read_popular", "Return the most popular products.", z.object({}), async () => {
    return json((await redis.zrevrange("bench:popular", 0, 9)).map(numberOf));
  });
  tool("read_product", "Return a product.", z.object({ product_id: z.number().int() }), async ({ product_id }) => {
    return json(await get(`/products/${product_id}`));
  });
  return server;
}

createServer(toNodeHandler(createMcpHandler(make))).listen(Number(process.argv[2]), "127.0.0.1");
