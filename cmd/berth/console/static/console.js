// Replaces the content of the page when the cluster has changed, and serves the keys. Without this
// script the page stays as it was when it was loaded.
"use strict";
(function () {
  // Single keys can be switched off: who speaks to a browser presses them unawares (WCAG 2.1.4).
  const keys = document.querySelector("#keys");
  keys.checked = localStorage.getItem("keys") !== "off";
  keys.parentElement.hidden = false;
  keys.addEventListener("change", () => localStorage.setItem("keys", keys.checked ? "on" : "off"));
  document.addEventListener("keydown", (e) => {
    if (!keys.checked || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    if (e.key === "/") { const q = document.querySelector("input[name=q]"); if (q) { e.preventDefault(); q.focus(); } }
    const link = document.querySelector('nav a[data-key="' + CSS.escape(e.key) + '"]');
    if (link) link.click();
  });

  const main = document.querySelector("main");
  const state = document.querySelector("#live");
  if (!main || !state || !window.EventSource) return;
  const still = main.dataset.still; // a question that must not change while it is read
  let busy = false, again = false;

  // A person who writes or selects something is not disturbed.
  function inUse() {
    const at = document.activeElement;
    if (at && main.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) return true;
    const selected = document.getSelection();
    return selected && !selected.isCollapsed && main.contains(selected.anchorNode);
  }

  // An element that can have the focus is found again by these, whatever else has changed.
  function keyOf(e) {
    return [e.tagName, e.getAttribute("href"), e.id, e.parentElement.id, e.getAttribute("aria-label")].join("\n");
  }

  // Replaces the content, with what a person has opened, focused and scrolled to the side.
  function show(next) {
    const open = new Set([...main.querySelectorAll("details[open]")].map((d) => d.id));
    const across = [...main.querySelectorAll(".scroll")].map((e) => e.scrollLeft);
    const at = document.activeElement, focused = at && main.contains(at) ? keyOf(at) : null;
    main.replaceChildren(...next.childNodes);
    main.dataset.generation = next.dataset.generation;
    for (const d of main.querySelectorAll("details")) if (open.has(d.id)) d.open = true;
    main.querySelectorAll(".scroll").forEach((e, n) => { e.scrollLeft = across[n] || 0; });
    if (focused) for (const e of main.querySelectorAll("a, summary, button, [tabindex]")) if (keyOf(e) === focused) { e.focus({ preventScroll: true }); break; }
  }

  async function refresh() {
    if (busy || inUse()) { again = true; return; }
    busy = true; again = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.querySelector("main"), count = page.querySelector("#wrong");
      // What the page is about may exist no longer: that is an answer.
      if (!next || !answer.ok && answer.status !== 404) throw new Error("refused");
      if (inUse()) {
        again = true;
      } else {
        show(next);
        if (count) document.querySelector("#wrong").replaceWith(count);
        document.title = page.title;
        document.dispatchEvent(new CustomEvent("berth:refreshed"));
      }
      state.textContent = "live";
    } catch (e) {
      state.textContent = "not connected";
      setTimeout(() => { again = true; }, 4000);
    }
    busy = false;
  }

  let stream = null;
  function connect() {
    if (stream || still) return;
    stream = new EventSource("/console/live?cluster=" + encodeURIComponent(main.dataset.cluster) +
      "&generation=" + encodeURIComponent(main.dataset.generation));
    stream.addEventListener("open", () => { state.textContent = "live"; });
    stream.addEventListener("change", refresh);
    stream.addEventListener("error", () => { state.textContent = "not connected"; });
  }
  // A page that nobody sees asks for nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { if (stream) stream.close(); stream = null; state.textContent = "paused"; }
    else if (!still) { connect(); refresh(); }
  });
  setInterval(() => { if (again && !document.hidden) refresh(); }, 1000);
  if (!document.hidden) connect();
})();
