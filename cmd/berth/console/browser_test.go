//go:build unix

package console_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A real browser shows every page without an error of style, script or policy, in both themes so
// that people can use it, and replaces the content of an open one when the cluster changes. With
// SCREENSHOTS=folder it leaves pictures there.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	b := startBrowser(t)
	s := newStore(t, 9, append(broken(), deploying())...)
	api := &fakeAPI{}
	server := changingConsole(t, s, api)
	b.open(t, server.URL+"/")
	b.await(t, "Service api runs 0 of 2 tasks: no instance can take 2 more.")
	b.await(t, "live")
	fixed := newService("api", 0)
	s.write(t, fixed)
	b.await(t, "Nothing is wrong in cluster prod (9 instances, 3 services, 18 tasks).")
	b.audit(t, "nothing wrong")
	s.write(t, broken()[0])
	b.await(t, "Service api runs 0 of 2 tasks")
	b.audit(t, "something wrong")
	b.checkThatAuditsNotice(t)
	for path, text := range browserPages {
		b.open(t, server.URL+path)
		b.await(t, text)
		b.audit(t, path)
		b.auditFocus(t, path)
	}
	b.open(t, server.URL+"/console/services")
	b.await(t, "live")
	b.checkLiveUpdate(t, s)
	b.checkRefusedRefresh(t, s)
	b.checkKeptByARefresh(t, server.URL, s)
	// A key changes the page, unless keys are switched off.
	b.checkKeysSwitchedOff(t, server.URL)
	b.leave(t, `document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "2", bubbles: true}))`)
	b.await(t, "Map of the instances")
	b.checkForm(t, server.URL, api)
	b.checkNarrow(t, server.URL, s)
	b.checkLargeMap(t)
	for _, fault := range b.faults {
		t.Errorf("the browser's console has %s", fault)
	}
	b.takePictures(t)
}

// browserPages are addresses with a text of each.
var browserPages = map[string]string{
	"/console/map": "Map of the instances", "/console/services": "steady", "/console/service/web": "Deployments",
	"/console/service/front": "Stop the deployment", "/console/tasks": "1 to 18 of 18",
	"/console/task/00000000000000000000000000000001": "Why here",
	"/console/instance/n-0":                          "512/2048 units", "/console/capacity": "Node groups",
	"/console/events": "alert(1)", "/console/change/drain?of=n-0": "Drain the instance",
	"/console/whatif?count=3&cpu=600": "would get tasks of the question",
	"/console/whatif?count=0":         "expected a number",
	"/console/rebalancing":            "Plan moves", "/console/rebalancing?plan=1": "distance",
}

// checkNarrow opens every page as a telephone does, with names as long as ECS allows: only tables
// and maps scroll to the side, not the page.
func (b *browser) checkNarrow(t *testing.T, base string, s *testStore) {
	t.Helper()
	long := broken()[0].(*cluster.Service)
	long.Name, long.Short = strings.Repeat("long_name", 28), "long"
	s.write(t, long)
	b.useWidth(t, narrowWidth)
	for path, text := range browserPages {
		b.checkWidth(t, base+path, text)
	}
	b.checkWidth(t, base+"/console/service/"+long.Name, "When placement last tried")
	b.checkWidth(t, base+"/console/events?service="+long.Name, "None.")
	b.checkWidth(t, base+"/", "2 problems")
	b.evaluate(t, `document.querySelector("main").insertAdjacentHTML("beforeend", "<div>" + "w".repeat(99)), ""`)
	if wide := b.evaluate(t, widthScript); wide == "" {
		t.Error("a word that is too wide is not noticed")
	}
	b.useWidth(t, 0)
}

func (b *browser) checkWidth(t *testing.T, address, text string) {
	t.Helper()
	b.open(t, address)
	b.await(t, text)
	if wide := b.evaluate(t, widthScript); wide != "" {
		t.Errorf("%s scrolls to the side: %s", address, wide)
	}
}

// widthScript says how much wider than the window the page is, and which elements stand out; empty
// if it fits.
const widthScript = `(() => {
	const page = document.documentElement;
	if (page.scrollWidth <= page.clientWidth) return "";
	const wide = [...document.querySelectorAll("body *")].filter((e) => !e.parentElement.closest(".scroll, .skip") &&
		e.getBoundingClientRect().right > page.clientWidth + 1);
	return page.scrollWidth + " > " + page.clientWidth + ": " + wide.slice(0, 3).map((e) => e.outerHTML.slice(0, 120));
})()`

// checkForm makes a change as a person does: link, question, button.
func (b *browser) checkForm(t *testing.T, base string, api *fakeAPI) {
	t.Helper()
	b.open(t, base+"/console/instance/n-0")
	b.await(t, "Drain")
	b.leave(t, `document.querySelector("a.button").click()`)
	b.await(t, "aws ecs update-container-instances-state --cluster prod --container-instances n-0 --status DRAINING")
	b.leave(t, `document.querySelector("button.sure").click()`)
	b.await(t, "Allocated CPU")
	if len(api.calls) != 1 {
		t.Errorf("calls %q", api.calls)
	}
}

// maxTransferred is how much a page with all that belongs to it may take, in bytes.
const maxTransferred = 500_000

// checkLargeMap opens the map of 5,000 instances. When its first content is there is only logged:
// machines are noisy.
func (b *browser) checkLargeMap(t *testing.T) {
	t.Helper()
	server, _ := site(t, newStore(t, 5000).source, "")
	b.open(t, server.URL+"/console/map")
	b.await(t, "833 instances")
	var out struct{ Result struct{ Value string } }
	b.call(t, "Runtime.evaluate", map[string]any{"awaitPromise": true, "returnByValue": true, "expression": `
		new Promise((done) => new PerformanceObserver((list) => list.getEntries().forEach((paint) => {
			if (paint.name !== "first-contentful-paint") return;
			const parts = performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"));
			done(JSON.stringify({first: paint.startTime, bytes: parts.reduce((sum, e) => sum + e.transferSize, 0)}));
		})).observe({type: "paint", buffered: true}))`}, &out)
	var page struct{ Bytes, First float64 }
	if err := json.Unmarshal([]byte(out.Result.Value), &page); err != nil {
		t.Fatalf("%q: %s", out.Result.Value, err)
	}
	t.Logf("the map of 5,000 instances shows something after %.0f ms and takes %.0f bytes", page.First, page.Bytes)
	if page.Bytes == 0 || page.Bytes > maxTransferred {
		t.Errorf("the map of 5,000 instances takes %.0f bytes, want at most %d", page.Bytes, maxTransferred)
	}
}

// pictures are the pages that are drawn, by the name of the picture.
var pictures = map[string]string{
	"first": "/", "map": "/console/map", "service": "/console/service/api", "deployment": "/console/service/front",
	"tasks": "/console/tasks", "capacity": "/console/capacity", "events": "/console/events",
	"whatif": "/console/whatif?count=3&cpu=600", "rebalancing": "/console/rebalancing?plan=1",
	"services": "/console/services", "instance": "/console/instance/n-0",
	"throttled": "/console/service/crash", "stuck": "/console/service/fixed",
	"task": "/console/task/" + firstTask, "drain": "/console/change/drain?of=n-0",
}

// emptyPictures are the pages that a cluster without instances and services has.
var emptyPictures = []string{"first", "map", "tasks", "capacity", "events", "whatif", "rebalancing", "services"}

// firstTask is the id of the first task of newStore.
const firstTask = "00000000000000000000000000000000"

// narrowWidth is the width of the window of a telephone.
const narrowWidth = 375

// takePictures shows clusters of each density in both themes, if somebody wants to look at them.
func (b *browser) takePictures(t *testing.T) {
	t.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	for _, n := range []int{0, 9, 500, 5000} {
		lost := newInstance(3)
		lost.AgentConnected, lost.DisconnectedAt, lost.Rev = false, cluster.At(noon), 1
		store := newStore(t, n)
		if n > 0 {
			for _, row := range slices.Concat(broken(), []state.Row{lost, deploying()}, stuck(), throttled()) {
				store.write(t, row)
			}
			upgrade(store)
		}
		server, _ := site(t, store.source, "")
		for _, theme := range []string{"light", "dark"} {
			b.useTheme(t, theme)
			for name, path := range pictures {
				if n == 0 && !slices.Contains(emptyPictures, name) {
					continue
				}
				b.open(t, server.URL+path)
				b.await(t, "As of ")
				for window, width := range map[string]int{"": 1280, "-narrow": narrowWidth} {
					b.takePicture(t, filepath.Join(folder, fmt.Sprintf("%s-%d-%s%s.png", name, n, theme, window)), width)
				}
			}
		}
	}
}

// takePicture draws the page as a window of the width shows it.
func (b *browser) takePicture(t *testing.T, file string, width int) {
	t.Helper()
	b.useWidth(t, width)
	var shot struct{ Data string }
	b.call(t, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// useWidth makes the window as wide as that; 0 returns to the browser's own width.
func (b *browser) useWidth(t *testing.T, width int) {
	t.Helper()
	b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 1000,
		"deviceScaleFactor": 1, "mobile": false}, nil)
}
