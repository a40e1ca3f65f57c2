//go:build unix

package console_test

import (
	_ "embed" // of the scripts
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// auditScript returns what keeps people from using a page: headings out of order, controls without
// a name, ids that are there twice, tables without headings, and text that does not stand out
// enough from what is behind it (WCAG 2.2: 4.5 to 1, and 3 to 1 for large text).
//
//go:embed testdata/audit.js
var auditScript string

// brokenScript breaks the page that is open.
//
//go:embed testdata/broken.js
var brokenScript string

// audit checks the page that is open, in both themes.
func (b *browser) audit(t *testing.T, name string) {
	t.Helper()
	for _, theme := range []string{"dark", "light"} {
		b.useTheme(t, theme)
		var faults []string
		if text := b.evaluate(t, auditScript); json.Unmarshal([]byte(text), &faults) != nil {
			t.Errorf("%s, %s: the check does not run: %q", name, theme, text)
		}
		for _, f := range faults {
			t.Errorf("%s, %s: %s", name, theme, f)
		}
	}
}

// checkThatAuditsNotice breaks the page that is open in several ways, each of which the check
// finds.
func (b *browser) checkThatAuditsNotice(t *testing.T) {
	t.Helper()
	b.evaluate(t, brokenScript)
	found := b.evaluate(t, auditScript)
	for _, want := range []string{"headings of the first level: 2", "a heading of level 4 after 1", "no name: <button>",
		"a focus order of its own: a", "twice: #main", "without a scope: t", `of i \"pale\"`} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is missing in what the check finds: %s", want, found)
		}
	}
}

func (b *browser) useTheme(t *testing.T, theme string) {
	t.Helper()
	b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": theme}}}, nil)
}

// focusScript returns the number of the focused element among all, whether the focus can be seen,
// and what it is.
//
//go:embed testdata/focus.js
var focusScript string

// auditFocus presses Tab until the focus leaves the page: it goes through the controls in the order
// of the page, one after the other, and can always be seen.
func (b *browser) auditFocus(t *testing.T, name string) {
	t.Helper()
	const most = 200
	last, count := 0, 0
	for ; count < most; count++ {
		for _, kind := range []string{"rawKeyDown", "keyUp"} {
			b.call(t, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Tab", "code": "Tab",
				"windowsVirtualKeyCode": 9}, nil)
		}
		var at struct {
			At         int
			Seen, Body bool
			What       string
		}
		if err := json.Unmarshal([]byte(b.evaluate(t, focusScript)), &at); err != nil {
			t.Fatal(err)
		}
		if at.Body || at.At < last && count > 5 {
			break // it has left the page, or begun again
		}
		if at.At <= last || !at.Seen {
			t.Errorf("%s: the focus goes to element %d after %d, and can be seen: %v: %s", name, at.At, last, at.Seen,
				at.What)
		}
		last = at.At
	}
	// An outline that is always there shows nothing.
	b.evaluate(t, `document.activeElement.blur(), ""`)
	if always := b.evaluate(t, `[...document.querySelectorAll("rect.hit")].filter((e) =>
		getComputedStyle(e).stroke !== "none").map((e) => e.outerHTML).join()`); always != "" {
		t.Errorf("%s: outlined without the focus: %s", name, always)
	}
	if least := 8; count < least {
		t.Errorf("%s: only %d elements take the focus", name, count)
	}
}

// checkRefusedRefresh lets refreshes of the open page be refused, and checks that it keeps its content,
// says so, and asks again.
func (b *browser) checkRefusedRefresh(t *testing.T, s *testStore) {
	t.Helper()
	b.evaluate(t, `window.answered = window.fetch,
		window.fetch = () => Promise.resolve(new Response("<main>refused</main>", {status: 503})), ""`)
	s.write(t, newService("later", 50))
	b.await(t, "not connected")
	if page := b.evaluate(t, pageText); strings.Contains(page, "refused") || strings.Contains(page, "0 of 50") {
		t.Errorf("after a refused refresh the page shows\n%s", page)
	}
	b.evaluate(t, `window.fetch = window.answered, ""`)
	b.await(t, "0 of 50")
	b.await(t, "live")
}

// checkKeptByARefresh checks that a refresh leaves the focus and what was scrolled to the side, and
// that the page knows of which generation it is.
func (b *browser) checkKeptByARefresh(t *testing.T, base string, s *testStore) {
	t.Helper()
	b.useWidth(t, narrowWidth)
	b.open(t, base+"/console/instance/n-0")
	b.await(t, "live")
	before := b.evaluate(t, `window.shown = new Promise((done) => document.addEventListener("berth:refreshed", () => {
			const at = document.activeElement;
			done([at.tagName, at.parentElement.id, document.querySelector(".scroll").scrollLeft].join(" "));
		})), document.querySelector("summary").focus(), document.querySelector(".scroll").scrollLeft = 40,
		document.querySelector("main").dataset.generation`)
	s.write(t, newService("later", 60))
	var out struct{ Result struct{ Value any } }
	b.call(t, "Runtime.evaluate", map[string]any{"expression": "window.shown", "awaitPromise": true,
		"returnByValue": true}, &out)
	if out.Result.Value != "SUMMARY attributes 40" {
		t.Errorf("after a refresh: %v", out.Result.Value)
	}
	if after := b.evaluate(t, `document.querySelector("main").dataset.generation`); after == before {
		t.Error("after a refresh the page has the generation of before")
	}
	b.useWidth(t, 0)
}

// checkKeysSwitchedOff switches the keys off, and on again: the next pages have it as the last one.
func (b *browser) checkKeysSwitchedOff(t *testing.T, base string) {
	t.Helper()
	const press = `document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "2", bubbles: true}))`
	b.evaluate(t, `document.querySelector("#keys").click(), ""`)
	b.open(t, base+"/console/tasks")
	b.await(t, "Keys: 1 to 8")
	if got := b.evaluate(t, press+`, String(document.querySelector("#keys").checked)`); got != "false" {
		t.Errorf("on the next page the keys are switched on: %s", got)
	}
	b.evaluate(t, `document.querySelector("#keys").click(), ""`)
	b.await(t, "Tasks")
	if at := b.evaluate(t, "location.pathname"); at != "/console/tasks" {
		t.Errorf("a key that is switched off leads to %s", at)
	}
}

// updateLimit is how long an open page may show what has changed.
const updateLimit = 2 * time.Second

// checkLiveUpdate changes the cluster while a page is open. The page's own event says that it shows
// the change. A machine that is busy may be late once, so the fastest of three counts.
func (b *browser) checkLiveUpdate(t *testing.T, s *testStore) {
	t.Helper()
	fastest := time.Hour
	for n := range 3 {
		b.evaluate(t, fmt.Sprintf(`window.shown = new Promise((done) => {
			document.addEventListener("berth:refreshed", () => {
				if (document.body.innerText.includes("0 of %d")) done("shown");
			});
		}), ""`, 40+n))
		begin := time.Now()
		s.write(t, newService("later", 40+n))
		var out struct{ Result struct{ Value any } }
		b.call(t, "Runtime.evaluate", map[string]any{"expression": "window.shown", "awaitPromise": true,
			"returnByValue": true}, &out)
		if out.Result.Value != "shown" {
			t.Fatalf("waiting for the change gave %v", out.Result.Value)
		}
		fastest = min(fastest, time.Since(begin))
	}
	t.Logf("an open page shows a change after %s", fastest.Round(time.Millisecond))
	if fastest > updateLimit {
		t.Errorf("an open page shows a change after %s, want at most %s", fastest, updateLimit)
	}
}
