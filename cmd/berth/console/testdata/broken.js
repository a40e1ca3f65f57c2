document.querySelector("main").insertAdjacentHTML("beforeend", '<h1 id="main">second</h1><h4>deep</h4>' +
	'<button></button><a href="/" tabindex="3">x</a><table><tr><th>t</th></tr></table>');
document.querySelector("h4").appendChild(Object.assign(document.createElement("i"), { textContent: "pale" })).style.color = "#88888855";
""
