package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// shrinkRuns limits how many runs the search for a shorter history may take.
const shrinkRuns = 300

// Shrink searches for a shorter history, and fewer kinds of fault, that violate the same invariant
// as the run did. It returns the shortest run found and its outcome; the run itself if nothing can
// be removed.
func Shrink(r Run, was Outcome) (Run, Outcome) {
	s := &shrinker{run: r, outcome: was, broken: firstBroken(was)}
	s.run.Actions = was.Actions
	for {
		size := len(s.run.Actions) - len(s.run.DisabledFaults)
		s.removeFaults()
		s.removeActions()
		if len(s.run.Actions)-len(s.run.DisabledFaults) == size || s.runs >= shrinkRuns {
			return s.run, s.outcome
		}
	}
}

// firstBroken returns the invariant that a run violated first: the text before the colon.
func firstBroken(o Outcome) string {
	if len(o.Broken) == 0 {
		return ""
	}
	head, _, found := strings.Cut(o.Broken[0], ":")
	if !found || !strings.HasPrefix(head, "invariant") {
		head, _, _ = strings.Cut(o.Broken[0], " ")
	}
	return head
}

// A shrinker searches greedily: it keeps every removal after which the same invariant is still
// violated.
type shrinker struct {
	run     Run
	outcome Outcome
	broken  string
	runs    int
}

// try keeps the run if it violates the same invariant.
func (s *shrinker) try(r Run) bool {
	if s.runs++; s.runs > shrinkRuns {
		return false
	}
	out := Simulate(r)
	if firstBroken(out) != s.broken {
		return false
	}
	s.run, s.outcome = r, out
	return true
}

// removeFaults disables all faults, or else those that are not needed.
func (s *shrinker) removeFaults() {
	if len(s.run.DisabledFaults) >= len(AllFaults)-1 {
		return
	}
	r := s.run
	// so that actions keep their times
	r.DisabledFaults = slices.DeleteFunc(slices.Clone(AllFaults), func(f Fault) bool { return f == LongRun })
	if s.try(r) {
		return
	}
	struck := s.outcome.Hits
	for f, n := range struck {
		if n > 0 && Fault(f) != LongRun && !slices.Contains(s.run.DisabledFaults, Fault(f)) {
			r := s.run
			r.DisabledFaults = append(slices.Clone(r.DisabledFaults), Fault(f))
			s.try(r)
		}
	}
}

// removeActions removes ever smaller parts of the history.
func (s *shrinker) removeActions() {
	for n := len(s.run.Actions) / 2; n > 0; n /= 2 {
		for at := 0; at < len(s.run.Actions); {
			r := s.run
			r.Actions = slices.Delete(slices.Clone(r.Actions), at, min(at+n, len(r.Actions)))
			if !s.try(r) {
				at += n
			}
		}
	}
}

// Report returns what a failure prints: the seed, what broke, the faults, the shortest history, and
// how to see the run again.
func Report(r Run, was Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d broke:\n", r.Seed)
	writeList(&b, was.Broken)
	fmt.Fprintf(&b, "Its faults:\n")
	writeList(&b, was.Faults)
	short, out := Shrink(r, was)
	fmt.Fprintf(&b, "The shortest history found, %d of %d actions, breaks:\n", len(short.Actions), len(was.Actions))
	writeList(&b, out.Broken)
	fmt.Fprintf(&b, "Its faults:\n")
	writeList(&b, out.Faults)
	fmt.Fprintf(&b, "Its history:\n")
	for _, a := range slices.SortedStableFunc(slices.Values(short.Actions),
		func(a, b Action) int { return cmp.Compare(a.At, b.At) }) {
		fmt.Fprintf(&b, "  %s\n", a)
	}
	fmt.Fprintf(&b, "Its log:\n")
	writeList(&b, out.Log)
	fmt.Fprintf(&b, "See the whole of it with: make simulate SEED=%d\n", r.Seed)
	return b.String()
}

func writeList(b *strings.Builder, lines []string) {
	if len(lines) == 0 {
		lines = []string{"none"}
	}
	for _, l := range lines {
		fmt.Fprintf(b, "  %s\n", l)
	}
}
