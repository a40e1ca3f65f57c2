package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() {
	failed, err := reportCases(os.Stdout, cmp.Or(os.Getenv("CASES_DIR"), "tests/cases/testdata"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// reportCases runs the cases of a folder, prints the result, and returns how many failed.
func reportCases(out io.Writer, dir string) (failed int, err error) {
	entries, err := readCases(dir)
	if err != nil {
		return 0, err
	}
	type tally struct {
		passed, total int
		failed        []string
	}
	tallies := map[string]*tally{}
	order := append([]string{}, kinds...)
	for _, e := range entries {
		t := tallies[e.Kind]
		if t == nil {
			t = &tally{}
			tallies[e.Kind] = t
			if !slices.Contains(order, e.Kind) {
				order = append(order, e.Kind)
			}
		}
		t.total++
		if err := e.checkAll(); err != nil {
			t.failed = append(t.failed, fmt.Sprintf("%s (%s): %s", e.ID, e.file, err))
			continue
		}
		t.passed++
	}
	for _, kind := range order {
		t := tallies[kind]
		if t == nil {
			continue
		}
		fmt.Fprintf(out, "%s: %d/%d\n", kind, t.passed, t.total)
		for _, line := range t.failed {
			fmt.Fprintf(out, "  failed: %s\n", line)
		}
		failed += len(t.failed)
	}
	return failed, nil
}
