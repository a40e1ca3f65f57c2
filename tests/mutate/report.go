//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"berth/tests/mutate/mutants"
)

// report is what the tests of a folder noticed.
type report struct {
	Folder   string `json:"folder"`
	Seed     int64  `json:"seed"`
	Possible int    `json:"possible"`
	Drawn    int    `json:"drawn"`
	Tried    int    `json:"tried"` // fewer than drawn after an interruption
	Noticed  int    `json:"noticed"`
	TimedOut int    `json:"timedOut"` // of the noticed ones
	// Unexplained is how many survived and are not in the list of kept changes.
	Unexplained int               `json:"unexplained"`
	Results     []*mutants.Result `json:"results"`
	// Vanished and NoticedKept are wrong entries of that list.
	Vanished    []mutants.Kept `json:"vanished"`
	NoticedKept []mutants.Kept `json:"noticedKept"`

	took time.Duration
}

// tally counts the results.
func (r *report) tally() {
	for _, result := range r.Results {
		switch {
		case result.Outcome == mutants.TimedOut:
			r.TimedOut++
			r.Noticed++
		case result.IsNoticed():
			r.Noticed++
		case result.Reason == "":
			r.Unexplained++
		}
	}
}

func (r *report) percentage() float64 { return 100 * float64(r.Noticed) / float64(max(1, r.Tried)) }

// breaks reports whether a limit is broken or the list of kept changes is out of date.
func (r *report) breaks(o options) bool {
	return r.percentage() < o.atLeast || o.unexplained >= 0 && r.Unexplained > o.unexplained ||
		len(r.Vanished)+len(r.NoticedKept) > 0
}

// writeText prints the changes that survived, and the sum.
func (r *report) writeText(out io.Writer) {
	for _, result := range r.Results {
		if result.IsNoticed() {
			continue
		}
		fmt.Fprintf(out, "%s:%d %s, %s: %s\n", result.File, result.Line, result.Function, result.Kind,
			describeOutcome(result))
		writeDiff(out, result.Mutant)
		if result.Reason != "" {
			fmt.Fprintf(out, "    kept: %s\n", result.Reason)
		}
	}
	for n := range r.Vanished {
		fmt.Fprintf(out, "kept.json: remove %s: the code has no such place any more\n", &r.Vanished[n])
	}
	for n := range r.NoticedKept {
		fmt.Fprintf(out, "kept.json: remove %s: a test notices it\n", &r.NoticedKept[n])
	}
	survived := r.Tried - r.Noticed
	fmt.Fprintf(out,
		"%s: %d of %d changes noticed (%.1f %%), %d of them by time; %d not, %d of them kept for a reason. "+
			"%d are possible; seed %d; %s\n", r.Folder, r.Noticed, r.Tried, r.percentage(), r.TimedOut, survived,
		survived-r.Unexplained, r.Possible, r.Seed, r.took.Round(time.Second))
}

// describeOutcome says why a change survived.
func describeOutcome(r *mutants.Result) string {
	switch r.Reached {
	case 0:
		return "no test runs it"
	case 1:
		return "the test that runs it passes"
	}
	return fmt.Sprintf("the %d tests that run it pass", r.Reached)
}

func writeDiff(out io.Writer, m *mutants.Mutant) {
	source, err := os.ReadFile(m.File)
	if err != nil {
		fmt.Fprintf(out, "    %s\n", m)
		return
	}
	before, after := m.Diff(source)
	for _, line := range before {
		fmt.Fprintf(out, "    - %s\n", strings.TrimLeft(line, "\t"))
	}
	for _, line := range after {
		fmt.Fprintf(out, "    + %s\n", strings.TrimLeft(line, "\t"))
	}
}
