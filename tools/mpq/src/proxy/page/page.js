"use strict";

// Asks for the status twice a second, and draws it. Nothing is built anew that is there: focus and selection stay.
const EVERY_MS = 500;
const SHOWN_MS = 60000;
const [WIDTH, HEIGHT] = [600, 160];
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "8 4", "2 4"];
const COLOURS = 6;

const WORDS = {
    opening: "opens", carries: "carries data", backup: "stands by", paused: "paused", suspect: "in doubt",
    failed: "failed", recovering: "recovers", gone: "gone",
};
const LINKS = {
    idle: "not connected", connecting: "connecting", connected: "HTTP/3", fallback: "HTTP/2 over TCP, one path",
    unreachable: "cannot be reached",
};

const cards = new Map();
let newestEvent = "";

function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
}

function put(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

function rate(bps) {
    return bps >= 1e6 ? `${(bps / 1e6).toFixed(1)} Mbit/s` : `${(bps / 1e3).toFixed(0)} kbit/s`;
}

function bytes(count) {
    if (count >= 1e9) return `${(count / 1e9).toFixed(2)} GB`;
    return count >= 1e6 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e3).toFixed(0)} kB`;
}

function clock(ms) {
    const seconds = Math.floor(ms / 1000);
    const two = (value) => String(value).padStart(2, "0");
    return `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

function colour(index) {
    return `var(--path-${index % COLOURS})`;
}

function pathName(path) {
    return path.interface ? `${path.interface} (${path.local})` : path.local;
}

// Points of a path's received rate: milliseconds, bit/s, over a second each.
function rates(path) {
    const points = [];
    const history = path.history;
    for (let end = 1, begin = 0; end < history.length; end += 1) {
        while (history[end][0] - history[begin + 1][0] >= 1000) begin += 1;
        const ms = history[end][0] - history[begin][0];
        if (ms > 0) points.push([history[end][0], (history[end][1] - history[begin][1]) * 8000 / ms]);
    }
    return points;
}

function newCard(origin) {
    const card = { root: element("article"), rows: new Map(), lines: new Map() };
    card.title = element("h2", origin.origin);
    card.link = element("p");
    const plot = element("div", undefined, "plot");
    card.svg = document.createElementNS(SVG, "svg");
    card.svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    card.svg.setAttribute("preserveAspectRatio", "none");
    card.svg.setAttribute("role", "img");
    for (const part of [0, 0.5, 1]) {
        const line = document.createElementNS(SVG, "line");
        const y = String(1 + part * (HEIGHT - 2));
        for (const [name, value] of [["x1", "0"], ["x2", String(WIDTH)], ["y1", y], ["y2", y], ["class", "grid"]]) {
            line.setAttribute(name, value);
        }
        card.svg.append(line);
    }
    card.scale = element("div", "", "scale");
    card.scale.setAttribute("aria-hidden", "true");
    const time = element("div", undefined, "time");
    time.setAttribute("aria-hidden", "true");
    time.append(element("span", "a minute ago"), element("span", "now"));
    plot.append(card.svg, card.scale, time);
    const table = element("table");
    table.append(element("caption", "Each path: what it brings, and how it is"));
    const head = element("tr");
    const titles = ["path", "state", "received", "share", "sent", "round trip", "window", "lost", "so far", ""];
    for (const title of titles) {
        const cell = element("th", title);
        cell.scope = "col";
        head.append(cell);
    }
    const thead = element("thead");
    thead.append(head);
    card.body = element("tbody");
    table.append(thead, card.body);
    const scroll = element("div", undefined, "table");
    scroll.append(table);
    card.unused = element("p", "", "quiet");
    card.root.append(card.title, card.link, plot, scroll, card.unused);
    document.getElementById("origins").append(card.root);
    return card;
}

function newRow(card, index) {
    const row = { root: element("tr"), name: element("th") };
    row.name.scope = "row";
    const key = element("span", undefined, `key dash-${index % DASHES.length}`);
    key.style.borderTopColor = colour(index);
    row.label = element("span");
    row.name.append(key, row.label);
    row.state = element("td", "", "text");
    row.cells = Array.from({ length: 7 }, () => element("td"));
    const cell = element("td");
    row.button = element("button");
    row.button.type = "button";
    row.button.addEventListener("click", () => press(row));
    cell.append(row.button);
    row.root.append(row.name, row.state, ...row.cells, cell);
    card.body.append(row.root);
    return row;
}

async function press(row) {
    const what = row.path.is_paused ? "resume" : "pause";
    row.button.disabled = true;
    try {
        await fetch(`paths/${encodeURIComponent(row.path.local)}/${what}`, { method: "POST" });
    } finally {
        row.button.disabled = false;
        row.button.focus();
        await update();
    }
}

function showRow(row, path) {
    row.path = path;
    put(row.label, pathName(path));
    put(row.state, WORDS[path.state] || path.state);
    const tone = { carries: "good", failed: "bad", suspect: "bad", gone: "bad" }[path.state] || "";
    row.state.className = `text ${tone}`;
    [
        rate(path.recv_bps), `${Math.round(path.share * 100)} %`, rate(path.sent_bps), `${path.rtt_ms.toFixed(1)} ms`,
        bytes(path.cwnd_bytes), `${path.lost_packets}`, bytes(path.recv_bytes),
    ].forEach((text, index) => put(row.cells[index], text));
    put(row.button, path.is_paused ? "Resume" : "Pause");
    row.button.setAttribute("aria-label", `${path.is_paused ? "Resume" : "Pause"} the path over ${pathName(path)}`);
    row.button.hidden = path.state === "gone" && !path.is_paused;
}

function showPlot(card, origin, nowMs) {
    const series = origin.paths.map(rates);
    const most = Math.max(1e6, ...series.flat().map((point) => point[1]));
    const unit = 10 ** Math.floor(Math.log10(most));
    const top = Math.ceil(most / unit) * unit;
    put(card.scale, rate(top));
    const x = (ms) => (1 - (nowMs - ms) / SHOWN_MS) * WIDTH;
    const y = (bps) => HEIGHT - 1 - (bps / top) * (HEIGHT - 2);
    origin.paths.forEach((path, index) => {
        const id = `${path.local} ${path.peer}`;
        let line = card.lines.get(id);
        if (!line) {
            line = { area: document.createElementNS(SVG, "polygon"), line: document.createElementNS(SVG, "polyline") };
            card.svg.append(line.area, line.line);
            card.lines.set(id, line);
        }
        const points = series[index].filter((point) => x(point[0]) >= 0).map((point) => [x(point[0]), y(point[1])]);
        const text = points.map((point) => point.map((value) => value.toFixed(1)).join(",")).join(" ");
        line.line.setAttribute("points", text);
        line.line.style.stroke = colour(index);
        line.line.setAttribute("stroke-dasharray", DASHES[index % DASHES.length]);
        line.area.style.fill = colour(index);
        const ground = `${HEIGHT - 1}`;
        const closed = points.length ? `${points[0][0].toFixed(1)},${ground} ${text} ${points.at(-1)[0].toFixed(1)},${ground}` : "";
        line.area.setAttribute("points", closed);
    });
    const shown = new Set(origin.paths.map((path) => `${path.local} ${path.peer}`));
    for (const [id, line] of card.lines) {
        if (!shown.has(id)) {
            line.line.remove();
            line.area.remove();
            card.lines.delete(id);
        }
    }
    const said = origin.paths.map((path) => `${pathName(path)}: ${rate(path.recv_bps)}`).join(", ");
    card.svg.setAttribute("aria-label", `Received rate of each path over the last minute. Now ${said || "no path"}.`);
}

function show(status) {
    let all = 0;
    for (const origin of status.origins) {
        let card = cards.get(origin.origin);
        if (!card) {
            card = newCard(origin);
            cards.set(origin.origin, card);
        }
        const total = origin.paths.reduce((sum, path) => sum + path.recv_bps, 0);
        all += total;
        let link = LINKS[origin.link] || origin.link;
        if (origin.link === "connected") link += origin.multipath ? ", several paths" : ", one path";
        link += `, ${rate(total)} received`;
        if (origin.tcp_bytes) link += `, ${bytes(origin.tcp_bytes)} over TCP so far`;
        if (origin.why) link += `. ${origin.why}`;
        put(card.link, link);
        origin.paths.forEach((path, index) => {
            const id = `${path.local} ${path.peer}`;
            if (!card.rows.has(id)) card.rows.set(id, newRow(card, index));
            showRow(card.rows.get(id), path);
        });
        const ids = new Set(origin.paths.map((path) => `${path.local} ${path.peer}`));
        for (const [id, row] of card.rows) {
            if (!ids.has(id)) {
                row.root.remove();
                card.rows.delete(id);
            }
        }
        put(card.unused, origin.unused.join("; "));
        showPlot(card, origin, status.now_ms);
    }
    const requests = status.requests;
    put(document.getElementById("summary"), `${requests.running} ${requests.running === 1 ? "request" : "requests"} under way, ${requests.total} in all, ${rate(all)} received` +
        `${requests.failed ? `, ${requests.failed} failed` : ""}${requests.resumed ? `, ${requests.resumed} resumed` : ""}`);
    put(document.getElementById("scheduler"), status.scheduler);
    put(document.getElementById("controller"), status.controller);

    const newest = JSON.stringify(status.events.at(-1) || "");
    if (newest !== newestEvent) {
        newestEvent = newest;
        const items = status.events.slice().reverse().map((event) => {
            const item = element("li");
            item.append(element("time", clock(event.ms)), document.createTextNode(event.text));
            return item;
        });
        document.getElementById("events").replaceChildren(...items);
    }
}

async function update() {
    try {
        const response = await fetch("status.json", { cache: "no-store" });
        show(await response.json());
        document.title = "Paths – mpq proxy";
    } catch {
        put(document.getElementById("summary"), "The proxy does not answer.");
        document.title = "Paths – no proxy";
    }
}

async function run() {
    await update();
    setTimeout(run, EVERY_MS);
}

run();
