// The palette: Ctrl-K opens a dialog that finds pages, machines, runs and plans. Without scripts the
// filters of the lists do.
"use strict";
(() => {
  if (!document.body.dataset.live) return; // not signed in
  let dialog, input, list, said, options = [], active = -1, asked = 0, timer = 0, stop = null;

  const make = (name, attributes, ...children) => {
    const el = document.createElement(name);
    for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, v);
    el.append(...children);
    return el;
  };

  const build = () => {
    input = make("input", {
      id: "find-text", type: "text", role: "combobox", "aria-expanded": "false", "aria-controls": "find-list", "aria-autocomplete": "list",
      autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: "id, MAC, serial, label=value, run, plan or page",
    });
    list = make("ul", { id: "find-list", role: "listbox", "aria-label": "Found" });
    said = make("p", { class: "faint", role: "status" });
    dialog = make("dialog", { id: "find", "aria-labelledby": "find-name" }, make("label", { for: "find-text", id: "find-name" }, "Go to"), input, list, said);
    document.body.append(dialog);
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, 120);
    });
    input.addEventListener("keydown", (e) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (step && options.length) {
        e.preventDefault();
        choose((active + step + options.length) % options.length);
      } else if (e.key === "Enter") {
        e.preventDefault();
        if (active >= 0) location.assign(options[active].link);
      } else if (e.key === "Escape") {
        e.preventDefault(); // the page has its own Escape
        dialog.close();
      }
    });
    dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });
  };

  const choose = (i) => {
    active = i;
    [...list.children].forEach((el, n) => el.setAttribute("aria-selected", String(n === i)));
    const el = list.children[i];
    if (el) {
      input.setAttribute("aria-activedescendant", el.id);
      el.scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  };

  const show = (found, text, more) => {
    options = found;
    list.replaceChildren(...found.map((o, i) => {
      const el = make("li", { id: "find-" + i, role: "option", "aria-selected": "false" },
        make("span", { class: "kind" }, o.kind), make("b", {}, o.text), make("span", { class: "faint" }, o.detail));
      el.addEventListener("click", () => location.assign(o.link));
      return el;
    }));
    input.setAttribute("aria-expanded", String(found.length > 0));
    said.textContent = !text ? "" : found.length ? found.length + (more ? " shown, and there are more" : " found") : "Nothing matches " + text;
    choose(found.length ? 0 : -1);
  };

  // The links of the navigation are the pages.
  const pages = (text) => [...document.querySelectorAll("#pages a[href]")]
    .map((a) => ({ kind: "page", text: a.textContent.trim(), detail: "", link: a.getAttribute("href") }))
    .filter((p) => p.text.toLowerCase().includes(text.toLowerCase()));

  const ask = async () => {
    const text = input.value.trim(), mine = ++asked;
    stop?.abort();
    const near = pages(text);
    if (!text) return show(near, text);
    stop = new AbortController();
    try {
      const answer = await fetch("/ui/find?q=" + encodeURIComponent(text), { signal: stop.signal, redirect: "error" });
      if (mine !== asked) return;
      if (!answer.ok) {
        show(near, text);
        said.textContent = "The search failed: " + (await answer.text()).slice(0, 200);
        return;
      }
      show([...near, ...await answer.json()], text, answer.headers.has("Holdfast-More"));
    } catch (e) {
      if (e.name === "AbortError" || mine !== asked) return;
      show(near, text);
      said.textContent = "The search failed: the peer does not respond";
    }
  };

  document.addEventListener("keydown", (e) => {
    if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey) return;
    e.preventDefault();
    if (!dialog) build();
    if (dialog.open) return dialog.close();
    input.value = "";
    dialog.showModal();
    input.focus();
    ask();
  });
})();
