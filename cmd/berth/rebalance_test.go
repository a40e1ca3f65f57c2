//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		if err := json.Unmarshal([]byte(text), &got); code != 0 || err != nil || errs != "" {
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
		"Seconds": {[]string{model, start, out, "--seconds=0"}, 2, "--seconds is 0, expected more than 0"},
		"Steps":   {[]string{model, start, out, "--steps=-1"}, 2, "--steps is -1, expected 0 or more"},
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
