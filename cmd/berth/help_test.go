//go:build unix

package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the help texts that berth prints now to testdata/help")

// commandNames returns the words of every command, such as "explain task".
func commandNames(t *testing.T) []string {
	t.Helper()
	parser, err := kong.New(&commands{}, kong.Vars(helpVariables()))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{""}
	var add func(n *kong.Node, before string)
	add = func(n *kong.Node, before string) {
		for _, child := range n.Children {
			name := strings.TrimSpace(before + " " + child.Name)
			names = append(names, name)
			add(child, name)
		}
	}
	add(parser.Model.Node, "")
	return names
}

// The help of every command is as reviewed. `go test ./cmd/berth -run TestHelpTexts -update` writes
// it anew.
func TestHelpTexts(t *testing.T) {
	folder := filepath.Join("testdata", "help")
	var files []string
	for _, name := range commandNames(t) {
		code, out, errs := berth(append(strings.Fields(name), "--help")...)
		if code != 0 || errs != "" {
			t.Errorf("berth %s --help: exit code %d, %q", name, code, errs)
		}
		file := strings.ReplaceAll(strings.TrimSpace("berth "+name), " ", "-") + ".txt"
		files = append(files, file)
		if *update {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(out), 0o644); err != nil { //nolint:gosec // a text
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out, "\n")); diff != "" {
			t.Errorf("berth %s --help has changed; if that is meant, run with -update:\n%s", name, diff)
		}
	}
	kept, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range kept {
		if !slices.Contains(files, f.Name()) {
			t.Errorf("%s is the help of no command", f.Name())
		}
	}
}

// Some commands have --output, some --json. Each names its own flag to who knows the other.
func TestFlagsOfTheFormat(t *testing.T) {
	for line, want := range map[string]string{
		"throttle web --output json":    "berth throttle has no --output; use --json",
		"throttle web --output=json":    "berth throttle has no --output; use --json",
		"explain service web -o json":   "berth explain service has no -o; use --json",
		"service --json":                "berth service has no --json; use --output json",
		"task web --json":               "berth task has no --json; use --output json",
		"backup --json":                 "unknown flag --json",
		"version --outputs json":        `unknown flag --outputs`,
		"--endpoint http://h status -o": "berth status has no -o; use --json",
	} {
		code, _, errs := berth(strings.Fields(line)...)
		if code != 2 || !strings.HasPrefix(errs, "berth: "+want+"\nTry: ") && !strings.HasPrefix(errs, "berth: "+want+",") {
			t.Errorf("berth %s: exit code %d, %q, want %q", line, code, errs, want)
		}
	}
	// Every command that prints a result has one of the flags, and so the hint for the other.
	for _, name := range commandNames(t) {
		_, help, _ := berth(append(strings.Fields(name), "--help")...)
		hasJSON, hasOutput := strings.Contains(help, "\n      --json"), strings.Contains(help, "--output=")
		if hasJSON && hasOutput {
			t.Errorf("berth %s has both --json and --output", name)
		}
		_, _, errs := berth(append(strings.Fields(name), "--output", "json")...)
		if hasJSON && name != "" && !strings.Contains(errs, "berth "+name+" has no --output; use --json") {
			t.Errorf("berth %s --output json: %q", name, errs)
		}
	}
}

// Only names that are near are offered.
func TestOffersAreNear(t *testing.T) {
	for line, want := range map[string]string{
		"ex": `unexpected argument ex, did you mean "explain"?`, "tsk": `unexpected argument tsk, did you mean "task"?`,
		"re":        `unexpected argument re, did you mean "restore", "replay" or "rebalance"?`,
		"backup -o": "unknown flag -o", "status --jsn": `unknown flag --jsn, did you mean "--json"?`,
		"events --since yesterday": `--since is "yesterday", expected a duration such as 30m or 1h`,
		"foo":                      "unexpected argument foo", "lost": "unexpected argument lost",
	} {
		if code, _, errs := berth(strings.Fields(line)...); code != 2 || !strings.HasPrefix(errs, "berth: "+want+"\nTry: ") {
			t.Errorf("berth %s: exit code %d, %q, want %q", line, code, errs, want)
		}
	}
}

// A command line with the right words in an order that is not understood gets the right one. Nothing is
// offered that would be wrong, too.
func TestOrderOfWords(t *testing.T) {
	for line, want := range map[string]string{
		"explain --json service web": "unknown flag --json; did you mean `berth explain service web --json`?",
		"explain --cluster prod service web --json": "unknown flag --cluster; did you mean " +
			"`berth explain service web --cluster prod --json`?",
		"--json explain --stack=s task 0123abcd": "unknown flag --json; did you mean " +
			"`berth explain task 0123abcd --json --stack=s`?",
		"web explain service":       "unexpected argument web; did you mean `berth explain service web`?",
		"explain web service":       "unexpected argument web; did you mean `berth explain service web`?",
		"explain --json servce web": "unknown flag --json; did you mean `berth explain service web --json`?",
		"explain --json service":    "unknown flag --json",
		"-o json service":           "unknown flag -o; did you mean `berth service -o json`?",
		"--json version":            "unknown flag --json; did you mean `berth version --json`?",
		"explain --wrong service w": "unknown flag --wrong",
		"status web":                "unexpected argument web",
	} {
		if code, _, errs := berth(strings.Fields(line)...); code != 2 || !strings.HasPrefix(errs, "berth: "+want+"\nTry: ") {
			t.Errorf("berth %s: exit code %d, %q, want %q", line, code, errs, want)
		}
	}
}

// A mistake names the command whose help has the answer.
func TestMistakesNameTheHelp(t *testing.T) {
	for line, want := range map[string]string{"whatif --count 0 --cpu 1": "Try: berth whatif --help\n",
		"explain task": "Try: berth explain task --help\n", "servise": "Try: berth --help\n",
		"up --nods 3": "Try: berth up --help\n", "status --wach": "Try: berth status --help\n"} {
		if code, _, errs := berth(strings.Fields(line)...); code != 2 || !strings.HasSuffix(errs, want) {
			t.Errorf("berth %s: exit code %d, %q, want %q at its end", line, code, errs, want)
		}
	}
}
