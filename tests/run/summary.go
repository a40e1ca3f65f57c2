//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func (res *result) add(other result) {
	res.passed = append(res.passed, other.passed...)
	res.failed = append(res.failed, other.failed...)
	res.skipped = append(res.skipped, other.skipped...)
	res.logs = append(res.logs, other.logs...)
}

// leftToCheck starts the reason of a test that is skipped because `make test` is to be quick.
const leftToCheck = "make check runs it: "

// unique returns the result with each name once: a test that failed in any run has failed, and one
// that passed in any has passed.
func (res result) unique() (once result) {
	once.logs = res.logs
	seen := map[string]bool{}
	isNew := func(name string) bool {
		was := seen[name]
		seen[name] = true
		return !was
	}
	for _, name := range slices.Sorted(slices.Values(res.failed)) {
		if isNew(name) {
			once.failed = append(once.failed, name)
		}
	}
	for _, name := range res.passed {
		if isNew(name) {
			once.passed = append(once.passed, name)
		}
	}
	for _, long := range []bool{false, true} { // a reason that make check gave says more
		for _, s := range res.skipped {
			if s.isLong() == long && isNew(s.Name) {
				once.skipped = append(once.skipped, s)
			}
		}
	}
	return once
}

func (s skip) isLong() bool { return strings.HasPrefix(s.Why, leftToCheck) }

// summary says what was skipped and why, and what failed and how, and ends with the counts. A step without
// tests of its own counts as one.
func (res result) summary() string {
	res = res.unique()
	var text strings.Builder
	long := 0
	for _, s := range res.skipped {
		if s.isLong() {
			long++
			continue
		}
		fmt.Fprintf(&text, "skipped: %s: %s\n", s.Name, s.Why)
	}
	for _, log := range res.logs {
		fmt.Fprintf(&text, "FAIL  %s\n", log)
	}
	for _, name := range res.failed {
		fmt.Fprintf(&text, "failed: %s\n", name)
	}
	if text.Len() > 0 {
		text.WriteByte('\n')
	}
	fmt.Fprintf(&text, "%d passed, %d failed, %d skipped", len(res.passed), len(res.failed), len(res.skipped)-long)
	if long > 0 {
		fmt.Fprintf(&text, "; make check also runs %d long tests", long)
	}
	return text.String() + "\n"
}

func (res result) exitCode() int {
	if len(res.failed) > 0 {
		return 1
	}
	return 0
}

// resultsFile keeps what a command found, for the summary of several.
func (r *runner) resultsFile(command string) string {
	return filepath.Join(r.cache, "results", command+".json")
}

// A savedResult is a result as it is written to a file.
type savedResult struct {
	Passed, Failed []string
	Skipped        []skip
	Logs           []string
}

func (r *runner) saveResults(command string, res result) error {
	text, err := json.Marshal(savedResult{res.passed, res.failed, res.skipped, res.logs})
	if err != nil {
		return err
	}
	return os.WriteFile(r.resultsFile(command), text, 0o644)
}

// savedResults joins the results that several commands have saved.
func (r *runner) savedResults(commands []string) (total result, err error) {
	for _, command := range commands {
		text, err := os.ReadFile(r.resultsFile(command))
		if errors.Is(err, fs.ErrNotExist) {
			total.add(result{failed: []string{"make " + command + " did not end"}})
			continue
		}
		if err != nil {
			return result{}, err
		}
		var saved savedResult
		if err := json.Unmarshal(text, &saved); err != nil {
			return result{}, fmt.Errorf("reading %s: %w", r.resultsFile(command), err)
		}
		total.add(result{passed: saved.Passed, failed: saved.Failed, skipped: saved.Skipped, logs: saved.Logs})
	}
	return total, nil
}

// printSummary prints the summary, keeps it in .cache/summary, and returns the exit code.
func (r *runner) printSummary(res result) int {
	text := res.summary()
	fmt.Fprint(r.out, "\n", text)
	if err := os.WriteFile(filepath.Join(r.cache, "summary"), []byte(text), 0o644); err != nil {
		fmt.Fprintln(r.out, err)
		return 1
	}
	return res.exitCode()
}
