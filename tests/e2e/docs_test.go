//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDocs runs the commands of documents with the real AWS CLI against `berth up`, and checks what
// the last of each kind prints.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip(leftToCheck + "capacity providers and node groups are looked at once a minute")
	}
	needsAWS(t)
	t.Parallel()
	for _, doc := range []struct {
		path   string
		checks map[string]func(t *testing.T, out string)
	}{
		{"docs/capacity.md", map[string]func(*testing.T, string){
			"aws ecs wait services-stable": func(t *testing.T, out string) {
				if out != "" {
					t.Errorf("got %q", out)
				}
			},
			"aws autoscaling describe-auto-scaling-groups": func(t *testing.T, out string) {
				var got []any
				readJSON(t, out, &got)
				if len(got) != 2 || got[0] != 2.0 || len(got[1].([]any)) != 2 { // eight of the tasks fit on an m5.large
					t.Fatalf("got %v", got)
				}
				for _, i := range got[1].([]any) {
					if i := i.([]any); i[1] != "InService" || i[2] != true {
						t.Errorf("instance %v", i)
					}
				}
			},
		}},
		{"docs/upgrades.md", map[string]func(*testing.T, string){
			"aws eks create-nodegroup": func(t *testing.T, out string) {
				var got struct{ Nodegroup struct{ Status string } }
				readJSON(t, out, &got)
				if got.Nodegroup.Status != "CREATING" {
					t.Errorf("got %+v", got)
				}
			},
			"aws eks update-nodegroup-config": func(t *testing.T, out string) {
				var got struct{ Update struct{ Status, Type string } }
				readJSON(t, out, &got)
				if got.Update.Status != "Successful" || got.Update.Type != "ConfigUpdate" {
					t.Errorf("got %+v", got)
				}
			},
			"aws eks describe-update": func(t *testing.T, out string) {
				var got struct {
					Update struct {
						Status, Type string
						Params       []struct{ Type, Value string }
					}
				}
				readJSON(t, out, &got)
				if u := got.Update; u.Status != "InProgress" || u.Type != "VersionUpdate" || len(u.Params) != 1 ||
					u.Params[0].Value != "ami-2" {
					t.Errorf("got %+v", got)
				}
			},
		}},
	} {
		t.Run(doc.path, func(t *testing.T) {
			t.Parallel()
			commands, berth, shell := commandsOf(t, doc.path), startBerth(t), newShell(t, 5*time.Minute)
			printed := map[string]string{}
			for _, command := range commands {
				out := shell.runCommand(strings.ReplaceAll(command, defaultEndpoint, berth))
				for of := range doc.checks {
					if strings.HasPrefix(command, of) {
						printed[of] = out
					}
				}
			}
			for of, check := range doc.checks {
				if !slices.ContainsFunc(commands, func(c string) bool { return strings.HasPrefix(c, of) }) {
					t.Errorf("%s no longer shows %q", doc.path, of)
					continue
				}
				check(t, printed[of])
			}
		})
	}
}
