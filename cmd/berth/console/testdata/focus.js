(() => {
	const e = document.activeElement, s = getComputedStyle(e), hit = e.querySelector("rect.hit");
	const seen = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0 || hit && getComputedStyle(hit).stroke !== "none";
	return JSON.stringify({At: [...document.querySelectorAll("*")].indexOf(e), Seen: !!seen, What: e.outerHTML.slice(0, 120),
		Body: e === document.body});
})()
