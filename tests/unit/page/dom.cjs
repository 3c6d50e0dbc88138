// Runs the script of a page against the least of a DOM, and prints what it shows as JSON.
const fs = require("fs");
const [, script] = /<\/script>\n<script>([\s\S]*)<\/script>\n<\/body>/.exec(fs.readFileSync(process.argv[2], "utf8"));
const [, json] = /id="data">([\s\S]*?)<\/script>/.exec(fs.readFileSync(process.argv[2], "utf8"));
const words = process.argv.slice(3);
let made = 0;
class Node {
  constructor(tag) { made++; this.tag = tag; this.children = []; this.style = {}; this.attributes = {}; this.listeners = {}; this.className = ""; this.value = ""; this.scrollTop = 0; this.classList = { add: (name) => { this.className += ` ${name}`; } }; }
  append(...nodes) { this.children.push(...nodes); }
  replaceChildren(...nodes) { this.children = nodes; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  get textContent() { return this.children.map((child) => child instanceof Node ? child.textContent : String(child)).join(""); }
  set textContent(text) { this.children = [text]; }
  all(test) { const nodes = this.children.filter((child) => child instanceof Node); return nodes.filter(test).concat(...nodes.map((node) => node.all(test))); }
}
const main = new Node("main"), data = { textContent: json };
globalThis.document = { getElementById: (id) => id === "main" ? main : data, createElement: (tag) => new Node(tag), createElementNS: (_, tag) => new Node(tag) };
globalThis.requestAnimationFrame = (paint) => paint();
eval(script);
const nodes = made, searched = [];
const named = (label) => main.all((node) => node.attributes["aria-label"] === label)[0];
const rows = (label) => { const list = named(label); return list ? list.all((node) => / row/.test(` ${node.className}`)).map((node) => node.textContent) : null; };
const first = { operations: rows("Operations"), partitions: rows("Partitions"), moments: rows("Timeline, newest first") };
for (const word of words) {
  const input = named("Search operations");
  input.value = word;
  input.listeners.input();
  searched.push([main.all((node) => node.attributes["aria-live"])[0].textContent, rows("Operations")]);
}
const list = named("Operations");
let end = null;
if (list && !words.length) { list.scrollTop = 1e9; list.listeners.scroll(); end = rows("Operations").pop(); }
const bars = (label) => { const picture = named(label); return picture ? picture.all((node) => node.tag === "rect").map((node) => [node.attributes.class, node.textContent]) : null; };
console.log(JSON.stringify({ nodes, ...first, searched, end, sizes: bars("Histogram of file sizes"), timeline: bars("Timeline of the table"), text: main.textContent }));
