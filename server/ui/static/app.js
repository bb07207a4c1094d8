// This script keeps pages up to date. Pages are complete without it. When something has changed, it
// fetches the page again and applies only the differences, so that focus, scroll positions and open
// details are preserved.
"use strict";
(() => {
  const live = document.getElementById("live");
  const said = live && live.querySelector(".said");
  const dot = live && live.querySelector(".dot");
  let peer = "", peers = [], leader = null, problem = "", skew = 0, lastHeard = Date.now(), staleSince = 0;

  // --- times ---------------------------------------------------------------------------------------------------------------------------
  const largest = (ms) => {
    const s = Math.floor(ms / 1000);
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m";
    if (s < 48 * 3600) return Math.floor(s / 3600) + "h";
    return Math.floor(s / 86400) + "d";
  };
  const pad = (n) => String(n).padStart(2, "0");
  const took = (ms) => {
    const s = Math.floor(ms / 1000);
    if (ms < 100) return Math.max(Math.floor(ms), 0) + "ms";
    if (ms < 10000) return (ms / 1000).toFixed(1) + "s";
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m" + pad(s % 60) + "s";
    if (s < 86400) return Math.floor(s / 3600) + "h" + pad(Math.floor(s / 60) % 60) + "m";
    return Math.floor(s / 86400) + "d" + Math.floor(s / 3600) % 24 + "h";
  };
  const put = (el, text) => { if (el.textContent !== text) el.textContent = text; };
  const tick = () => {
    const now = Date.now() + skew;
    for (const el of document.querySelectorAll("time[datetime]")) {
      const d = now - Date.parse(el.dateTime);
      put(el, Math.abs(d) < 1000 ? "now" : d < 0 ? "in " + largest(-d) : largest(d) + " ago");
    }
    for (const el of document.querySelectorAll("[data-since]")) put(el, took(now - Date.parse(el.dataset.since)));
  };

  // --- applying the differences ---------------------------------------------------------------------------------------------------
  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
  const morph = (old, now) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== now.nodeValue) old.nodeValue = now.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!now.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
    }
    for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (old.hasAttribute("data-keep")) return;
    const keyed = new Map();
    for (const c of old.children) if (c.id) keyed.set(c.id, c);
    let at = old.firstChild;
    for (const next of [...now.childNodes]) {
      const known = next.id && keyed.get(next.id);
      if (known && known !== at) old.insertBefore(known, at);
      const mine = known || (at && same(at, next) ? at : null);
      if (!mine) {
        old.insertBefore(document.importNode(next, true), at);
        continue;
      }
      if (mine === at) at = at.nextSibling;
      morph(mine, next);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  // --- refreshing --------------------------------------------------------------------------------------------------------------------
  let due = 0, busy = false, cost = 0;
  // A page with a form that is being filled in is not refreshed.
  const writing = () => document.querySelector("main form[method=post]") !== null || (document.activeElement && document.activeElement.matches("main input, main select, main textarea"));
  const refresh = async () => {
    due = 0;
    if (busy || document.hidden || writing()) return;
    busy = true;
    const begin = performance.now();
    try {
      const url = new URL(location.href);
      url.searchParams.delete("at");
      const answer = await fetch(url, { headers: { Accept: "text/html" }, redirect: "error" });
      if (answer.status === 401 || answer.status === 403) return location.reload();
      if (answer.status >= 500) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = page.getElementById("main");
      if (main && !writing()) morph(document.getElementById("main"), main);
      document.querySelectorAll("[data-log]").forEach(follow);
      tick();
    } catch { /* the status line shows that the peer does not respond */ } finally {
      cost = performance.now() - begin;
      busy = false;
    }
  };
  // Refresh after the given delay, but at least ten times the duration of the last refresh.
  const want = (soon) => {
    const wait = Math.max(soon, 10 * cost);
    if (due && due <= Date.now() + wait) return;
    due = Date.now() + wait;
    setTimeout(refresh, wait);
  };

  // --- the stream ----------------------------------------------------------------------------------------------------------------------
  const clock = (t) => new Date(t).toLocaleTimeString();
  const show = () => {
    if (!live) return;
    const quiet = Date.now() - lastHeard > 10000;
    if (staleSince || quiet) {
      staleSince ||= lastHeard;
      const text = `Stale since ${clock(staleSince)}: ${peer || "this peer"} is not responding. Reconnecting.`;
      live.className = "live stale";
      if (said.firstChild?.nodeValue !== text || said.childElementCount !== peers.length) {
        said.replaceChildren(text, ...peers.map((p) => {
          const a = document.createElement("a");
          a.href = p.url + location.pathname + location.search;
          a.textContent = "Switch to " + p.id;
          return a;
        }));
      }
      return;
    }
    if (!peer || leader === null) return; // nothing received yet
    live.className = leader ? "live on" : "live stale";
    put(said, leader ? `Live from ${peer}, ${leader === peer ? "the leader" : "leader " + leader}` : problem || `${peer} knows no leader. This page shows its own state. Changes wait.`);
  };
  let source, lastIndex = "", lastSample = 0;
  const heard = () => {
    lastHeard = Date.now();
    staleSince = 0;
  };
  const listen = () => {
    source = new EventSource(document.body.dataset.live);
    const on = (name, f) => source.addEventListener(name, (e) => {
      heard();
      f(JSON.parse(e.data));
      show();
    });
    on("hello", (d) => {
      ({ peer, peers } = d);
      want(0);
    });
    on("pulse", (d) => {
      leader = d.leader || "";
      problem = d.problem || "";
      skew = d.now - Date.now();
      if (d.index !== lastIndex) want(3000);
      if (d.sample !== lastSample && document.querySelector("[data-history]")) want(0);
      lastIndex = d.index;
      lastSample = d.sample;
    });
    on("run", (d) => {
      dot.classList.remove("beat");
      requestAnimationFrame(() => dot.classList.add("beat"));
      const id = location.pathname.match(/^\/ui\/(runs|machines)\/([^/]+)$/);
      if (!id || decodeURIComponent(id[2]) === d.run || decodeURIComponent(id[2]) === d.machine) want(300);
    });
    on("mark", () => {});
    on("reset", () => location.reload());
    source.onerror = () => {
      staleSince ||= lastHeard;
      show();
      if (source.readyState === EventSource.CLOSED) { // refused: refresh the page, which shows the reason
        source.close();
        setTimeout(() => { want(0); listen(); }, 3000);
      }
    };
  };

  // --- logs ----------------------------------------------------------------------------------------------------------------------------
  const followed = new WeakSet();
  const follow = (log) => {
    if (followed.has(log)) return;
    followed.add(log);
    let last = log.querySelector(".from:last-of-type")?.textContent || "";
    const bottom = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.scrollTop = log.scrollHeight;
    if (!("follow" in log.dataset)) return;
    let offset = log.dataset.offset;
    const open = () => {
      const only = log.dataset.stream ? `&stream=${log.dataset.stream}` : "";
      const s = new EventSource(`${log.dataset.log}?offset=${offset}${only}`);
      s.addEventListener("log", (e) => {
        const d = JSON.parse(e.data), stay = bottom();
        offset = e.lastEventId;
        const from = d.step + (d.attempt > 1 ? ` (attempt ${d.attempt})` : "");
        const add = (cls, text) => {
          const el = document.createElement("span");
          el.className = cls;
          el.textContent = text;
          log.append(el);
        };
        if (from !== last && !only) add("from", from);
        last = from;
        add("o-" + d.stream, d.text);
        if (stay) log.scrollTop = log.scrollHeight;
      });
      s.addEventListener("end", () => s.close());
      s.onerror = () => {
        if (s.readyState === EventSource.CLOSED) setTimeout(open, 2000);
      };
    };
    open();
  };

  // --- forms and keys ------------------------------------------------------------------------------------------------------------------
  for (const input of document.querySelectorAll("[data-typed]")) {
    const button = input.form.querySelector(".actions button");
    const check = () => { button.disabled = input.value.trim() !== input.dataset.typed; };
    input.addEventListener("input", check);
    check();
  }
  for (const form of document.querySelectorAll("form[data-once]")) {
    form.addEventListener("submit", () => setTimeout(() => { form.querySelector(".actions button").disabled = true; }));
  }
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && !e.defaultPrevented) { // first leave the field, then the confirmation page
      if (e.target.matches("input, textarea, select")) return e.target.blur();
      document.querySelector("main form.ask[method=post] a.button.quiet, main > p > a.button.quiet")?.click();
      return;
    }
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, textarea, select")) return;
    const filter = document.getElementById("filter");
    if (!filter) return;
    e.preventDefault();
    filter.focus();
    filter.select();
  });
  if (location.search.includes("at=")) {
    const url = new URL(location.href);
    url.searchParams.delete("at");
    history.replaceState(null, "", url);
  }

  document.querySelectorAll("[data-log]").forEach(follow);
  setInterval(() => { tick(); show(); }, 1000);
  tick();
  if (live && document.body.dataset.live) {
    listen();
    document.addEventListener("visibilitychange", () => { if (!document.hidden) want(0); });
    addEventListener("pagehide", () => source.close());
    addEventListener("pageshow", (e) => { if (e.persisted) listen(); });
  }
})();
