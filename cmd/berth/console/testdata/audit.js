(() => {
	const faults = [];
	const path = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.getAttribute("class") ? "." + e.getAttribute("class") : "");
	const shown = (e) => e.checkVisibility() && e.getClientRects().length > 0;
	const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((h) => +h.tagName[1]);
	if (headings.filter((n) => n === 1).length !== 1) faults.push("headings of the first level: " + headings.filter((n) => n === 1).length);
	headings.forEach((n, k) => { if (n > (k ? headings[k - 1] : 0) + 1) faults.push("a heading of level " + n + " after " + headings[k - 1]); });
	if (!document.documentElement.lang || !document.title) faults.push("no language or no title");
	if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
	const nameOf = (e) => {
		if (e.getAttribute("aria-label")) return e.getAttribute("aria-label");
		if (e.labels && e.labels.length) return [...e.labels].map((l) => l.textContent).join(" ");
		if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName)) return e.title;
		return e.textContent || e.title;
	};
	const controls = document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex], svg[role=img]");
	for (const e of controls) {
		if (!nameOf(e).trim()) faults.push("no name: " + e.outerHTML.slice(0, 200));
		if (e.tabIndex > 0) faults.push("a focus order of its own: " + path(e));
	}
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	ids.filter((id, k) => ids.indexOf(id) !== k).forEach((id) => faults.push("twice: #" + id));
	for (const e of document.querySelectorAll("th")) if (!e.scope) faults.push("a heading of a table without a scope: " + e.textContent);
	for (const e of document.querySelectorAll("nav, [role=region]")) if (!e.getAttribute("aria-label")) faults.push("no label: " + path(e));

	const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
	const rgba = (color) => {
		canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
		const d = canvas.getImageData(0, 0, 1, 1).data;
		return [d[0], d[1], d[2], d[3] / 255];
	};
	const over = (top, bottom) => [0, 1, 2].map((k) => top[k] * top[3] + bottom[k] * (1 - top[3])).concat(1);
	const behind = (e) => {
		if (!e) return [255, 255, 255, 1];
		const own = rgba(getComputedStyle(e).backgroundColor);
		return own[3] === 1 ? own : over(own, behind(e.parentElement));
	};
	const light = (c) => {
		const [r, g, b] = c.map((x) => { x /= 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	let texts = 0;
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; (node = walk.nextNode());) {
		const e = node.parentElement;
		if (!node.data.trim() || /^(SCRIPT|STYLE|OPTION|title)$/.test(e.tagName) || !shown(e)) continue;
		texts++;
		const style = getComputedStyle(e), ground = behind(e);
		const ink = over(rgba(e.namespaceURI.endsWith("svg") ? style.fill : style.color), ground);
		const a = light(ink.slice(0, 3)), b = light(ground.slice(0, 3));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize);
		const least = size >= 24 || size >= 18.66 && +style.fontWeight >= 700 ? 3 : 4.5;
		if (ratio < least) faults.push("contrast " + ratio.toFixed(2) + " of " + path(e) + " " + JSON.stringify(node.data.trim().slice(0, 40)));
	}
	if (texts < 10) faults.push("only " + texts + " texts were looked at");
	return JSON.stringify(faults);
})()
