//go:build unix

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// An event is one line of `go test -json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output
	Test       string
	Output     string
}

// A testLog collects what `go test -json` reports. It counts the tests that have no subtests and
// keeps the output of those that fail.
type testLog struct {
	outputs map[string][]string // by package and test
	parents map[string]bool     // tests with subtests
	ended   []endedTest
	running map[string]bool // packages
	over    int             // packages that have ended
	cached  int             // of these, those whose results are from the test cache
}

// An endedTest is a test that has ended, or a package where test is empty.
type endedTest struct{ action, pkg, test string }

func newTestLog() *testLog {
	return &testLog{outputs: map[string][]string{}, parents: map[string]bool{}, running: map[string]bool{}}
}

func (e event) key() string {
	if e.ImportPath != "" {
		pkg, _, _ := strings.Cut(e.ImportPath, " ") // "p [p.test]"
		return pkg + " "
	}
	return e.Package + " " + e.Test
}

func (l *testLog) add(e event) {
	if e.Test != "" {
		for i := strings.LastIndexByte(e.Test, '/'); i > 0; i = strings.LastIndexByte(e.Test[:i], '/') {
			l.parents[e.Package+" "+e.Test[:i]] = true
		}
	}
	switch e.Action {
	case "start":
		l.running[e.Package] = true
	case "output", "build-output":
		l.outputs[e.key()] = append(l.outputs[e.key()], e.Output)
		if e.Test == "" && strings.HasSuffix(e.Output, "(cached)\n") {
			l.cached++
		}
	case "pass":
		delete(l.outputs, e.key())
		fallthrough
	case "fail", "skip":
		l.ended = append(l.ended, endedTest{e.Action, e.Package, e.Test})
		if e.Test == "" {
			delete(l.running, e.Package)
			l.over++
		}
	}
}

// detail says how many packages of all have ended, and which are running.
func (l *testLog) detail(all int) string {
	text := fmt.Sprintf("%d of %d packages", l.over, all)
	for _, pkg := range slices.Sorted(maps.Keys(l.running)) {
		_, path, _ := strings.Cut(pkg, "/") // without the module's name
		text += ", " + path
	}
	return text
}

// result returns the outcome of each test, and writes what failed to log.
func (l *testLog) result(log io.Writer) result {
	var res result
	packages := map[string]bool{}
	explained := map[string]bool{} // tests and packages that failed because of one within them
	for _, e := range l.ended {
		key := e.pkg + " " + e.test
		packages[e.pkg] = packages[e.pkg] || e.test != ""
		switch {
		case e.action == "fail" && !explained[key]:
			res.failed = append(res.failed, strings.TrimSpace(key))
			l.show(log, key)
			explainParents(explained, e)
		case e.action == "skip" && e.test != "":
			res.skipped = append(res.skipped, skip{key, skipReason(l.outputs[key])})
		case e.action == "pass" && e.test != "" && !l.parents[key]:
			res.passed = append(res.passed, key)
		}
	}
	res.note = fmt.Sprintf("%d tests in %d packages", len(res.passed), countTrue(packages))
	if l.cached > 0 {
		res.note += fmt.Sprintf(", %d of them unchanged", l.cached)
	}
	if n := len(res.skipped); n > 0 {
		res.note += fmt.Sprintf(", %d skipped", n)
	}
	slices.SortFunc(res.skipped, func(a, b skip) int { return strings.Compare(a.Name, b.Name) })
	return res
}

func countTrue(set map[string]bool) int {
	n := 0
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}

// explainParents marks the tests around a failed test, and its package: they failed for no other
// reason.
func explainParents(explained map[string]bool, e endedTest) {
	explained[e.pkg+" "] = true
	for i := strings.LastIndexByte(e.test, '/'); i > 0; i = strings.LastIndexByte(e.test[:i], '/') {
		explained[e.pkg+" "+e.test[:i]] = true
	}
}

// show writes the output of a failed test. If a package failed without a failed test (it did not
// compile, panicked, or took too long), show writes the output of all its tests that did not pass. Of
// a dump of all goroutines it writes the first: the others would hide what was said before.
func (l *testLog) show(log io.Writer, key string) {
	fmt.Fprintf(log, "--- %s\n", strings.TrimSpace(key))
	for _, k := range slices.Sorted(maps.Keys(l.outputs)) {
		if k != key && !(strings.HasSuffix(key, " ") && strings.HasPrefix(k, key)) {
			continue
		}
		goroutines := 0
		for _, line := range l.outputs[k] {
			if strings.HasPrefix(line, "goroutine ") {
				goroutines++
			}
			if goroutines > 1 {
				fmt.Fprintln(log, "… the other goroutines are in .cache/log")
				break
			}
			if !strings.HasPrefix(line, "=== ") {
				io.WriteString(log, line)
			}
		}
	}
}

var sourcePosition = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// skipReason returns what a skipped test gave as its reason.
func skipReason(output []string) string {
	var parts []string
	for _, line := range output {
		if strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			continue
		}
		if s := strings.TrimSpace(sourcePosition.ReplaceAllString(line, "")); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

// A testRun is one run of go test.
type testRun struct {
	step     string // whose detail it sets, and whose name its log has
	env      []string
	flags    []string
	packages []string
	// module is the folder of another module of the project; "" is the root.
	module string
	// prefix tells the tests apart from the same ones in another run.
	prefix string
}

// goTest returns an action that runs go test and reports each test. Go vet has a step of its own.
func (r *runner) goTest(t testRun) action {
	return func(ctx context.Context, log io.Writer) result {
		file, err := r.logFile(t.step)
		if err != nil {
			return failed(log, err)
		}
		defer file.Close()
		lines, input := io.Pipe()
		tests := newTestLog()
		var reading sync.WaitGroup
		reading.Go(func() {
			tests.read(lines, file, log, func() { r.progress.detail(t.step, tests.detail(len(t.packages))) })
		})
		args := slices.Concat([]string{"test", "-C", cmp.Or(t.module, "."), "-json", "-vet=off"}, t.flags, t.packages)
		err = r.exec(ctx, input, t.env, "go", args...)
		input.Close()
		reading.Wait()
		res := tests.result(log)
		res.addPrefix(t.prefix)
		if err != nil && len(res.failed) == 0 {
			return failed(log, err)
		}
		return res
	}
}

// read takes in a whole run, and calls changed after each event. Lines that are no events, of the
// go command itself, go to log.
func (l *testLog) read(lines io.Reader, file, log io.Writer, changed func()) {
	in := bufio.NewReader(lines)
	for {
		line, err := in.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			l.add(e)
			io.WriteString(file, e.Output)
			changed()
		} else if len(line) > 0 {
			log.Write(line)
		}
		if err != nil {
			return
		}
	}
}
