package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/cmd/berth/definition"
)

// Importing the nine-node description creates a cluster. A dry run before shows the changes and
// makes none; a second import finds nothing to do, and that of a changed description only the
// difference.
func TestImport(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "1", "--listen", "127.0.0.1:0").waitForEndpoint()
	berth := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		code := runCommandLine(append([]string{"import", "--endpoint", endpoint}, args...), &out, &errs)
		return out.String() + errs.String(), code
	}
	manifest := filepath.Join("..", "..", "shared", "servicefabric", "testdata", "ClusterManifest.xml")
	read := func(args ...string) imported {
		t.Helper()
		text, code := berth(append([]string{manifest, "--json", "--cluster", "fabric", "--register"}, args...)...)
		var got imported
		if err := json.Unmarshal([]byte(text), &got); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, text)
		}
		return got
	}
	dry := read("--dry-run")
	if dry.Applied || !slices.ContainsFunc(dry.Changes,
		func(c definition.Change) bool { return c.Action == "add" && c.What == "cluster" }) {
		t.Errorf("the dry run: %+v", dry)
	}
	first := read()
	if len(first.Changes) != len(dry.Changes) || !first.Applied {
		t.Errorf("%d changes, the dry run announced %d", len(first.Changes), len(dry.Changes))
	}
	instances := slices.DeleteFunc(slices.Clone(first.Changes),
		func(c definition.Change) bool { return c.What != "instance" })
	if len(instances) != 9 {
		t.Errorf("%d instances were added, want 9", len(instances))
	}
	if again := read(); len(again.Changes) > 0 {
		t.Errorf("a second run changes %v", again.Changes)
	}
	text, _ := berth(manifest, "--cluster", "other", "--dry-run")
	for _, want := range []string{"+ cluster other", "+ configuration nodeBufferPercentage.SomeMetric 0.15",
		"no instance is node Node09 yet", `ECS_INSTANCE_ATTRIBUTES={"berth.fault-domain":"fd:/DC03/Rack03"`,
		"PLBRefreshGap; it was left out", "would change"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}

	data, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	manifest = filepath.Join(t.TempDir(), "changed.xml")
	changed := strings.NewReplacer(`UpgradeDomain="UpgradeDomain1" IsSeedNode="true" />
        <Node NodeName="Node02"`, `UpgradeDomain="UpgradeDomain7" IsSeedNode="true" />
        <Node NodeName="Node02"`, `"65536"`, `"7000000"`).Replace(string(data))
	if err := os.WriteFile(manifest, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	got := read()
	want := []definition.Change{
		{Action: "change", What: "configuration", Name: "nodeTypes.NodeType03.capacities.ClientConnections",
			From: "65536", To: "7000000"},
		{Action: "change", What: "instance", Name: "Node01 berth.upgrade-domain", From: "UpgradeDomain1",
			To: "UpgradeDomain7"},
	}
	if !slices.Equal(got.Changes, want) {
		t.Errorf("changes %+v, want %+v", got.Changes, want)
	}
}

// A configuration that somebody else changes after the plan is not replaced: the plan did not show that.
func TestImportBesideAnotherChange(t *testing.T) {
	endpoint := startChild(t, "berth", "up", "--ephemeral", "--nodes", "1", "--zones", "1", "--listen",
		"127.0.0.1:0").waitForEndpoint()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	changed, pass := false, httputil.NewSingleHostReverseProxy(target)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutClusterConfiguration") && !changed {
			changed = true
			if code, _, errs := berth("limit", "shop", "--maximum-nodes", "2", "--endpoint", endpoint); code != 0 {
				t.Errorf("berth limit: exit code %d, %s", code, errs)
			}
		}
		pass.ServeHTTP(w, r)
	}))
	defer between.Close()
	manifest := filepath.Join("..", "..", "shared", "servicefabric", "testdata", "ClusterManifest.xml")
	if code, _, errs := berth("import", manifest, "--endpoint", between.URL); code != 1 ||
		!strings.Contains(errs, "run the command again") || !strings.Contains(errs, "ConflictException") {
		t.Errorf("exit code %d, expected 1 and a conflict: %s", code, errs)
	}
	if _, out, _ := berth("limit", "--endpoint", endpoint); out != "Application shop: at most 2 instances.\n" {
		t.Errorf("the limits are now %q", out)
	}
	if code, out, errs := berth("import", manifest, "--endpoint", between.URL); code != 0 ||
		!strings.Contains(out, "- configuration applications.shop") {
		t.Errorf("the next import: exit code %d, %s%s", code, out, errs)
	}
}

func TestImportRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{\n\"nodes\": [}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		has  string
	}{
		"Malformed": {[]string{bad}, 1, "line 2"},
		"NoFile":    {[]string{"nowhere.xml"}, 2, "nowhere.xml"},
		"NobodyAnswers": {[]string{filepath.Join("..", "..", "shared", "servicefabric", "testdata",
			"ClusterConfig.json"), "--endpoint", "http://127.0.0.1:1"}, 1,
			"start `berth up`"},
		"Endpoint": {[]string{filepath.Join("..", "..", "shared", "servicefabric", "testdata", "ClusterConfig.json"),
			"--endpoint", "here"}, 2, "expected a URL"},
		"CPU": {[]string{bad, "--cpu", "1"}, 2, "--cpu is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := runCommandLine(append([]string{"import"}, c.args...), &out, &errs); code != c.code ||
				!strings.Contains(errs.String(), c.has) {
				t.Errorf("exit code %d, %s, want %d with %q", code, errs.String(), c.code, c.has)
			}
		})
	}
}
