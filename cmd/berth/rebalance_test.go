//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

// Two processes that need 6 each are on a machine that is best used up to 6. The other machine is
// empty.
const (
	reassignModel = `1
0 10
2
0 0 20 6 0 2
0 0 20 6 2 0
2
0 0
0 0
2
0 6 3
1 6 4
0
1 10 7
`
	reassignStart = "0 0\n"
)

func TestRebalance(t *testing.T) {
	model, start := writeTestFile(t, "model.txt", reassignModel), writeTestFile(t, "start.txt", reassignStart)
	out := filepath.Join(t.TempDir(), "new.txt")
	args := []string{"rebalance", "--instance", model, "--assignment", start, "--out", out}
	t.Run("WritesAndPrints", func(t *testing.T) {
		code, text, errs := berth(append(args, "--steps", "5000", "--json")...)
		var got struct {
			Processes, Machines, CostBefore, CostAfter, Moved, Steps int
			Plan                                                     struct {
				Moves     []struct{ Process, From, To, Gain int }
				CostAfter int
			}
		}
		if err := json.Unmarshal([]byte(text), &got); code != 0 || err != nil || !isProgress(errs) {
			t.Fatalf("exit code %d, %v, %q, %q", code, err, text, errs)
		}
		// One move costs 3 + 10 + 2·7 and saves 60.
		if got.Processes != 2 || got.Machines != 2 || got.CostBefore != 60 || got.CostAfter != 27 || got.Moved != 1 ||
			got.Steps < 5000 || len(got.Plan.Moves) != 1 || got.Plan.Moves[0].Gain != 33 || got.Plan.CostAfter != 27 {
			t.Errorf("%+v", got)
		}
		if written, err := os.ReadFile(out); err != nil || string(written) != "1 0\n" {
			t.Errorf("written %q, %v", written, err)
		}
	})
	t.Run("StopsInTime", func(t *testing.T) {
		code, text, errs := berth(append(args, "--seconds", "0.1")...)
		if code != 0 || errs != "" || !strings.Contains(text, "cost          27, before 60") {
			t.Errorf("exit code %d, %q, %q", code, text, errs)
		}
	})
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"DryRunOfFiles": {[]string{model, start, out, "--dry-run"}, 2, "expected none beside --dry-run"},
		"Most":          {[]string{model, start, out, "--most=-1"}, 2, "--most is -1, expected 0 or more"},
		"Seconds":       {[]string{model, start, out, "--seconds=0"}, 2, "--seconds is 0, expected more than 0"},
		"Steps":         {[]string{model, start, out, "--steps=-1"}, 2, "--steps is -1, expected 0 or more"},
		"Model": {[]string{start, start, out}, 1,
			"start.txt: the file ends before number 3, expected the number of services"},
		"Assignment": {[]string{model, model, out}, 1, `model.txt: number 3 is "10", expected the end of the file`},
		"Out":        {[]string{model, start, filepath.Join(out, "below"), "--steps=1"}, 1, "--out: "},
	} {
		t.Run(name, func(t *testing.T) {
			code, text, errs := berth(append([]string{"rebalance", "--instance", c.args[0], "--assignment", c.args[1],
				"--out", c.args[2]}, c.args[3:]...)...)
			if code != c.code || text != "" || !strings.Contains(errs, c.want) {
				t.Errorf("exit code %d, %q, %q; expected %d and %q", code, text, errs, c.code, c.want)
			}
		})
	}
}

// isProgress reports whether nothing but the progress of a search was printed, as a slow machine
// does after two seconds.
func isProgress(printed string) bool {
	return printed == "" || strings.HasPrefix(printed, "searching: ")
}

// A saved cluster whose three tasks share one of three instances gets two moves.
func TestRebalanceDryRun(t *testing.T) {
	path := writeTestFile(t, "cluster.rows", savedRows(t, balanceRows()...))
	args := []string{"rebalance", "--dry-run", "--snapshot", path}
	t.Run("JSON", func(t *testing.T) {
		code, text, errs := berth(append(args, "--json")...)
		var got struct {
			Before, After struct{ Distance, InstanceSurplus float64 }
			Moves         []struct{ Task, Service, From, To, Why string }
		}
		if err := json.Unmarshal([]byte(text), &got); code != 0 || err != nil || errs != "" {
			t.Fatalf("exit code %d, %v, %q, %q", code, err, text, errs)
		}
		if len(got.Moves) != 2 || got.After.Distance >= got.Before.Distance || got.After.InstanceSurplus != 0 ||
			got.Moves[0].Service != "web" || got.Moves[0].From != "i-1" || got.Moves[0].To == got.Moves[1].To ||
			!strings.HasPrefix(got.Moves[0].Why, "instance i-1 has 3 tasks of service web") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("Text", func(t *testing.T) {
		code, text, errs := berth(append(args, "--most", "1")...)
		if code != 0 || !isProgress(errs) || !strings.Contains(text, "   1. web: task t-") ||
			!strings.Contains(text, "gain so far 0.3333") || !strings.Contains(text, "After: distance 0.3333") ||
			!strings.HasSuffix(text, "Service web: 1 move.\n1 move, cost 1.\n") {
			t.Errorf("exit code %d, %q, %q", code, text, errs)
		}
	})
	t.Run("Unsteady", func(t *testing.T) {
		rows := balanceRows()
		rows[len(rows)-1].(*cluster.Service).Steady = false
		file := writeTestFile(t, "unsteady.rows", savedRows(t, rows...))
		code, text, errs := berth("rebalance", "--dry-run", "--snapshot", file)
		if code != 0 || !isProgress(errs) || !strings.HasSuffix(text,
			"Service web is not steady: until it is, its tasks stay where they are.\nNo moves are worth it.\n") {
			t.Errorf("exit code %d, %q, %q", code, text, errs)
		}
	})
	t.Run("WhatIsMissing", func(t *testing.T) {
		for want, given := range map[string]string{
			"--dry-run is not given": "--snapshot", "--assignment is missing": "--instance",
		} {
			code, text, errs := berth("rebalance", given, path)
			if code != 2 || text != "" || !strings.Contains(errs, want) {
				t.Errorf("%s: exit code %d, %q, %q", given, code, text, errs)
			}
		}
	})
}

// balanceRows are three instances of one zone, and a service with all its tasks on the first.
func balanceRows() []state.Row {
	head := cluster.Head{Cluster: "c", Rev: 1}
	rows := []state.Row{&cluster.TaskDefinition{Head: head, Family: "web", Revision: 1,
		Needs: cluster.Resources{Memory: 100}}}
	for _, id := range []string{"i-1", "i-2", "i-3"} {
		rows = append(rows, &cluster.Instance{Head: head, ID: id, Status: cluster.InstanceActive, AgentConnected: true,
			Attributes: map[string]string{}, Registered: cluster.Capacity{CPU: cluster.VCPU, Memory: 1000}},
			&cluster.Task{Head: head, TaskAssignment: cluster.TaskAssignment{Instance: "i-1",
				Desired: cluster.TaskRunning}, TaskReport: cluster.TaskReport{Last: cluster.TaskRunning},
				TaskSpec: cluster.TaskSpec{ID: "t-" + id, Owner: "web-short", Service: "web", TaskDefinition: "web:1",
					Needs: cluster.Resources{Memory: 100}}})
	}
	return append(rows, &cluster.Service{Head: head,
		ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web-short"},
		ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Replica, Desired: 3, MaxPercent: 200},
		ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive, Steady: true,
			Deployment: cluster.Deployment{Revision: cluster.Revision{TaskDefinition: "web:1"},
				State: cluster.RolloutCompleted}},
	})
}

// savedRows returns the text of a file that --save would write.
func savedRows(t *testing.T, rows ...state.Row) string {
	t.Helper()
	var out strings.Builder
	for _, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(berthapi.Row{Sort: state.KeyOf(row).Sort, Row: text})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.String()
}
