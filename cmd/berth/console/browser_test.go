//go:build unix

package console_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"berth/shared/cluster"
)

// A real browser shows every page without an error of style, script or policy, and replaces the
// content of an open one when the cluster changes. With SCREENSHOTS=folder it leaves pictures
// there.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	b := startBrowser(t)
	s := newStore(t, 9, broken()...)
	server, _ := site(t, s.source, "")
	b.open(t, server.URL+"/")
	b.await(t, "Service api runs 0 of 2 tasks: no instance can take 2 more.")
	b.await(t, "live")
	fixed := newService("api", 0)
	s.write(t, fixed)
	b.await(t, "Nothing is wrong in cluster prod (9 instances, 2 services, 18 tasks).")
	s.write(t, broken()[0])
	b.await(t, "Service api runs 0 of 2 tasks")
	for path, text := range map[string]string{
		"/console/map": "Map of the instances", "/console/services": "steady", "/console/service/web": "Deployments",
		"/console/tasks": "1 to 18 of 18", "/console/instance/n-0": "512/2048 units",
		"/console/capacity": "Node groups",
		"/console/events":   "alert(1)",
	} {
		b.open(t, server.URL+path)
		b.await(t, text)
		b.await(t, "live")
	}
	// A key changes the page.
	b.evaluate(t, `document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "2", bubbles: true})), ""`)
	b.await(t, "Map of the instances")
	for _, fault := range b.faults {
		t.Errorf("the browser's console has %s", fault)
	}
	b.takePictures(t)
}

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
		server, _ := site(t, newStore(t, n, append(broken(), lost)...).source, "")
		for _, theme := range []string{"light", "dark"} {
			b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
				{"name": "prefers-color-scheme", "value": theme}}}, nil)
			b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 1000,
				"deviceScaleFactor": 1, "mobile": false}, nil)
			for name, path := range map[string]string{"first": "/", "map": "/console/map",
				"service": "/console/service/api"} {
				b.open(t, server.URL+path)
				b.await(t, "live")
				var shot struct{ Data string }
				b.call(t, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
				data, err := base64.StdEncoding.DecodeString(shot.Data)
				if err == nil {
					err = os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", name, n, theme)), data, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
