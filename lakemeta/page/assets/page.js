
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  const ROW = 54, TALLEST = 8e6, GOING = /^(delete|expire|remove|drop)/;
  const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

  // Names may hold anything: what does not show, or turns the text around, is spelled out.
  const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
  const shown = (text) => String(text).replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

  function make(tag, names, ...children) {
    const made = document.createElement(tag);
    if (names) made.className = names;
    made.append(...children.filter((child) => child !== "" && child != null));
    return made;
  }
  function draw(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }
  function bytes(size) {
    let unit = 0, value = size;
    while (value >= 1024 && unit < BYTES.length - 1) { value /= 1024; unit++; }
    return unit ? `${value.toFixed(1)} ${BYTES[unit]}` : `${size} B`;
  }
  const number = (n) => n.toLocaleString("en");
  const files = (n) => n === 1 ? "1 file" : `${number(n)} files`;
  function date(name, ms) {
    if (ms != null) {
      const at = new Date(ms);
      return Number.isNaN(at.getTime()) ? `${ms} ms` : at.toISOString().slice(0, 19).replace("T", " ") + " UTC";
    }
    const d = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)/.exec(name);
    return d ? `${d[1]}-${d[2]}-${d[3]} ${d[4]}:${d[5]}:${d[6]}` : "";
  }

  function section(title, note) {
    const made = make("section", "", make("h2", "", title), note ? make("p", "note", note) : "");
    main.append(made);
    return made;
  }
  function legend(...names) {
    return make("div", "legend", ...names.map(([kind, text]) => make("span", kind, text)));
  }
  /** Draw now and whenever the width changes. */
  function drawn(box, paint) {
    let width = 0;
    const again = () => {
      const found = Math.max(260, Math.floor(box.clientWidth || 640));
      if (found !== width) { width = found; box.replaceChildren(paint(width)); }
    };
    again();
    if (typeof ResizeObserver === "function") new ResizeObserver(again).observe(box);
    return box;
  }

  /** A list of rows of one height, of which those in view are there. */
  function list(box, label, row) {
    const room = make("div", "room"), view = make("div", "list", room);
    view.tabIndex = 0;
    view.setAttribute("role", "list");
    view.setAttribute("aria-label", label);
    let order = [], asked = false;
    const paint = () => {
      asked = false;
      const height = view.clientHeight || 480, whole = order.length * ROW, tall = Math.min(whole, TALLEST);
      const most = Math.max(1, tall - height), end = Math.max(0, whole - height);
      const top = Math.min(end, whole > tall ? view.scrollTop / most * end : view.scrollTop);
      const first = Math.max(0, Math.floor(top / ROW) - 4), last = Math.min(order.length, Math.ceil((top + height) / ROW) + 4);
      const rows = [];
      for (let place = first; place < last; place++) {
        const made = row(order[place]);
        made.classList.add("row");
        made.setAttribute("role", "listitem");
        made.setAttribute("aria-setsize", String(order.length));
        made.setAttribute("aria-posinset", String(place + 1));
        made.style.top = `${place * ROW - top + view.scrollTop}px`;
        rows.push(made);
      }
      room.replaceChildren(...rows);
    };
    view.addEventListener("scroll", () => { if (!asked) { asked = true; requestAnimationFrame(paint); } }, { passive: true });
    if (typeof ResizeObserver === "function") new ResizeObserver(paint).observe(view);
    box.append(view);
    return (chosen) => {
      order = chosen;
      room.style.height = `${Math.min(order.length * ROW, TALLEST)}px`;
      view.style.height = `min(${order.length * ROW + 2}px, 65vh)`;
      view.scrollTop = 0;
      paint();
    };
  }
  const range = (count) => Array.from({ length: count }, (_, place) => place);

  function facts() {
    if (!data.facts.length) return;
    const box = make("dl", "facts");
    for (const [name, value] of data.facts) box.append(make("div", "", make("dt", "", shown(name)), make("dd", "", shown(value))));
    section("In numbers").append(box);
  }

  function outcomes() {
    const box = section(`What if ${shown(data.option)} were ...`, "Bytes that would go or be rewritten, and the oldest point that can be read afterwards. Nothing was changed.");
    const most = Math.max(1, ...data.outcomes.map((o) => o.bytes || 0));
    for (const o of data.outcomes) {
      const one = make("div", "outcome", make("b", "", shown(o.value)));
      if (o.refused != null) {
        one.append(make("div", "refused", "refused: " + shown(o.refused)));
      } else {
        const bar = make("div", "bar going");
        bar.style.width = `${100 * o.bytes / most}%`;
        const said = [`${files(o.files)}, ${bytes(o.bytes)}`];
        if (o.into != null) said.push(`into ${files(o.into)}`);
        if (o.snapshots != null) said.push(`${number(o.snapshots)} snapshots expire`);
        if (o.oldest != null) said.push(`oldest readable: ${shown(o.oldest)} (${date(o.oldest, o.oldest_ms)})`);
        if (o.note) said.push(shown(o.note));
        one.append(make("div", "track", bar), make("div", "note", said.join(" · ")));
      }
      box.append(one);
    }
  }

  const SEVERITIES = { blocks: "Blocks cleaning", wrong: "Wrong", note: "Worth knowing" };
  function findings() {
    const box = section("Findings", data.findings.length ? "" : "Nothing to report: the table is clean.");
    for (const [severity, sentence] of data.findings) {
      box.append(make("p", "finding", make("span", severity === "note" ? "tag" : "tag going", SEVERITIES[severity] || shown(severity)), ` ${shown(sentence)}`));
    }
  }

  const SERIES = { now: "now", after: "after the plan", going: "files that go" };
  function histogram() {
    const kinds = Object.keys(SERIES).filter((kind) => data.sizes[kind] && !(kind === "going" && data.sizes.after));
    if (!kinds.some((kind) => data.sizes[kind].length)) return;
    const counts = Object.fromEntries(kinds.map((kind) => [kind, new Map(data.sizes[kind])]));
    const bins = kinds.flatMap((kind) => [...counts[kind].keys()]), low = Math.min(...bins), high = Math.max(...bins);
    const most = Math.max(...kinds.flatMap((kind) => [...counts[kind].values()]));
    const total = (kind) => [...counts[kind].values()].reduce((sum, n) => sum + n, 0);
    const box = section("Sizes of files", "How many files there are of each size; a column is twice as large as the one before.");
    box.append(legend(...kinds.map((kind) => [kind, `${SERIES[kind]}: ${files(total(kind))}`])));
    box.append(drawn(make("div"), (width) => {
      const columns = high - low + 1, step = (width - 4) / columns, height = 170, every = Math.ceil(58 / step);
      const picture = draw("svg", { viewBox: `0 0 ${width} 200`, height: 200, role: "img", "aria-label": "Histogram of file sizes" });
      for (let n = 0; n < columns; n++) {
        const from = low + n ? 2 ** (low + n - 1) : 0, thick = Math.min(36, step * 0.86 / kinds.length);
        kinds.forEach((kind, place) => {
          const count = counts[kind].get(low + n) || 0, tall = count ? Math.max(2, count / most * (height - 22)) : 0;
          const x = 2 + n * step + (step - thick * kinds.length) / 2 + place * thick;
          if (count) picture.append(draw("rect", { x, y: height - tall, width: Math.max(1, thick - 1), height: tall, class: kind },
            draw("title", {}, `${files(count)} ${SERIES[kind]}, from ${bytes(from)} on`)));
          if (count && number(count).length * 6.5 <= thick + 4) picture.append(draw("text", { x: x + thick / 2, y: height - tall - 4, "text-anchor": "middle" }, number(count)));
        });
        if (n % every === 0) picture.append(draw("text", { x: 2 + n * step, y: 188 }, bytes(from).replace(".0", "")));
      }
      picture.append(draw("line", { x1: 0, x2: width, y1: height, y2: height }));
      return picture;
    }));
  }

  function timeline() {
    const all = data.moments;
    if (!all.length) return;
    const gone = all.filter((m) => m[6]).length;
    const box = section("Timeline", `${number(all.length)} ${all[0][1] == null ? "instants" : "snapshots"}; bars are the bytes of ${data.holds}.`);
    const names = [["now", "stays"]];
    if (gone) names.push(["going", all[0][1] == null ? "before the earliest commit to retain" : "expires"]);
    box.append(legend(...names));
    const marks = new Map();
    for (const o of data.outcomes || []) if (o.oldest != null) marks.set(o.oldest, [...(marks.get(o.oldest) || []), shown(o.value)]);
    box.append(drawn(make("div"), (width) => {
      const shownOnes = all.slice(-Math.floor(width / 4)), step = width / shownOnes.length, thick = Math.min(28, step * 0.8), height = 120;
      const most = Math.max(1, ...shownOnes.map((m) => m[4]));
      const picture = draw("svg", { viewBox: `0 0 ${width} 150`, height: 150, role: "img", "aria-label": "Timeline of the table" });
      shownOnes.forEach((m, place) => {
        const tall = Math.max(3, m[4] / most * (height - 24)), x = place * step + (step - thick) / 2;
        picture.append(draw("rect", { x, y: height - tall, width: thick, height: tall, class: m[6] ? "going" : "now" },
          draw("title", {}, `${date(m[0], m[1])} ${m[0]} ${m[2]}: ${files(m[3])}, ${bytes(m[4])} ${m[5]}`)));
        if (m[5]) picture.append(draw("circle", { cx: x + thick / 2, cy: height + 7, r: 3, class: "mark" }, draw("title", {}, shown(m[5]))));
        if (marks.has(m[0])) {
          picture.append(draw("line", { x1: x, x2: x, y1: 12, y2: height, class: "mark" }));
          picture.append(draw("text", { x, y: 10, "text-anchor": x > width - 40 ? "end" : "start" }, marks.get(m[0]).join(", ").slice(0, 24)));
        }
      });
      picture.append(draw("line", { x1: 0, x2: width, y1: height, y2: height }));
      const ends = [shownOnes[0], shownOnes[shownOnes.length - 1]].map((m) => date(m[0], m[1]).slice(0, 16));
      picture.append(draw("text", { x: 0, y: 144 }, ends[0]), draw("text", { x: width, y: 144, "text-anchor": "end" }, ends[1]));
      if (shownOnes.length < all.length) picture.append(draw("text", { x: width / 2, y: 144, "text-anchor": "middle" }, `the newest ${number(shownOnes.length)}`));
      return picture;
    }));
    list(box, "Timeline, newest first", (place) => {
      const m = all[place], said = `${files(m[3])}, ${bytes(m[4])}`;
      const state = m[6] === 1 ? " · expires" : m[6] === 2 ? " · before the earliest commit to retain" : "";
      return make("div", "", make("div", "", make("span", m[6] ? "tag going" : "tag", shown(m[2])), ` ${date(m[0], m[1])} ${shown(m[5])}`),
        make("div", "second", `${shown(m[0])} · ${said}${state}`));
    })(range(all.length).reverse());
  }

  function partitions() {
    const all = data.partitions;
    if (!all.length) return;
    const going = all.some((p) => p[3]), most = Math.max(1, ...all.map((p) => Math.max(p[2], p[4])));
    const box = section("Partitions", `${number(all.length)}, ${going ? "those first of which most goes or is rewritten" : "largest first"}.`);
    box.append(legend(["now", "bytes now"], ...(going ? [["going", "bytes that go or are rewritten"]] : [])));
    const order = range(all.length).sort((a, b) => all[b][4] - all[a][4] || all[b][2] - all[a][2]);
    list(box, "Partitions", (place) => {
      const p = all[place], bars = [make("div", "bar now"), make("div", "bar going")];
      bars[0].style.width = `${100 * p[2] / most}%`;
      bars[1].style.width = `${100 * p[4] / most}%`;
      const change = p[3] ? ` · ${files(p[3])}, ${bytes(p[4])} change` : "";
      return make("div", "", make("div", "path", shown(p[0]) || "(table)"), make("div", "second", `${files(p[1])}, ${bytes(p[2])}${change}`), ...bars);
    })(order);
  }

  function operations() {
    const { texts, columns: [action, partition, path, size, reason, by] } = data.operations, count = path.length;
    if (!count) { section("Operations", "Nothing to do."); return; }
    const box = section("Operations", "Every file of the plan, and why. Words are looked for in names, actions and reasons.");
    const search = make("input"), sort = make("select"), said = make("p", "note"), detail = make("p", "detail");
    search.type = "search"; search.placeholder = "Search"; search.setAttribute("aria-label", "Search operations");
    search.autocomplete = "off"; search.spellcheck = false;
    for (const [value, text] of [["plan", "in the plan's order"], ["size", "largest first"]]) {
      const option = make("option", "", text);
      option.value = value;
      sort.append(option);
    }
    sort.setAttribute("aria-label", "Order");
    said.setAttribute("aria-live", "polite");
    detail.setAttribute("aria-live", "polite");
    box.append(make("div", "controls", search, sort), said);
    let hay = null, by_size = null;
    const sized = (n) => n < 0 ? "" : bytes(n);
    const show = list(box, "Operations", (n) => {
      const what = texts[action[n]], kind = GOING.test(what) ? "tag going" : what === "keep" ? "tag keep" : "tag";
      const more = [sized(size[n]), shown(texts[reason[n]]), texts[by[n]] && `by ${shown(texts[by[n]])}`].filter(Boolean).join(" · ");
      const row = make("div", "", make("div", "path", shown(path[n])), make("div", "second", make("span", kind, shown(what)), " ", more));
      row.addEventListener("click", () => {
        detail.textContent = [shown(what), shown(path[n]), sized(size[n]), shown(texts[reason[n]]), shown(texts[by[n]]), shown(texts[partition[n]])].filter(Boolean).join(" · ");
      });
      return row;
    });
    box.append(detail);
    const look = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (words.length && !hay) {
        const low = texts.map((text) => text.toLowerCase());
        hay = path.map((name, n) => `${name.toLowerCase()} ${low[action[n]]} ${low[reason[n]]} ${low[partition[n]]} ${low[by[n]]}`);
      }
      if (sort.value === "size" && !by_size) by_size = range(count).sort((a, b) => size[b] - size[a] || a - b);
      const order = sort.value === "size" ? by_size : range(count);
      const found = words.length ? order.filter((n) => words.every((word) => hay[n].includes(word))) : order;
      let sum = 0;
      for (const n of found) sum += Math.max(0, size[n]);
      said.textContent = `${number(found.length)} of ${number(count)}, ${bytes(sum)}`;
      show(found);
    };
    search.addEventListener("input", look);
    sort.addEventListener("change", look);
    look();
  }

  if (data.findings) findings();
  facts();
  if (data.outcomes) outcomes();
  histogram();
  timeline();
  partitions();
  if (data.operations) operations();
})();
