//go:build unix

package main

import (
	"bufio"
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

// event is one line of `go test -json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output
	Test       string
	Output     string
}

// testLog gathers what `go test -json` reports: it counts each test that has no subtests, and keeps the output of what
// failed.
type testLog struct {
	outputs map[string][]string // by package and test
	parents map[string]bool     // tests with subtests
	results []testResult
}

type testResult struct{ action, pkg, test string }

func newTestLog() *testLog {
	return &testLog{outputs: map[string][]string{}, parents: map[string]bool{}}
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
	case "output", "build-output":
		l.outputs[e.key()] = append(l.outputs[e.key()], e.Output)
	case "pass":
		delete(l.outputs, e.key())
		fallthrough
	case "fail", "skip":
		l.results = append(l.results, testResult{e.Action, e.Package, e.Test})
	}
}

// result is the count, with what failed written to log.
func (l *testLog) result(log io.Writer) result {
	var res result
	packages := map[string]bool{}
	blamed := map[string]bool{} // tests and packages whose failure a subtest or test explains
	for _, r := range l.results {
		key := r.pkg + " " + r.test
		packages[r.pkg] = packages[r.pkg] || r.test != ""
		switch {
		case r.action == "fail" && !blamed[key]:
			res.failures = append(res.failures, strings.TrimSpace(key))
			l.show(log, key)
			blame(blamed, r)
		case r.action == "skip" && r.test != "":
			res.skips = append(res.skips, skip{key, reason(l.outputs[key])})
		case r.action == "pass" && r.test != "" && !l.parents[key]:
			res.passed++
		}
	}
	res.note = fmt.Sprintf("%d tests in %d packages", res.passed, count(packages))
	if n := len(res.skips); n > 0 {
		res.note += fmt.Sprintf(", %d skipped", n)
	}
	slices.SortFunc(res.skips, func(a, b skip) int { return strings.Compare(a.what, b.what) })
	return res
}

func count(set map[string]bool) int {
	n := 0
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}

// blame marks everything above a failed test: it failed for no other reason.
func blame(blamed map[string]bool, r testResult) {
	blamed[r.pkg+" "] = true
	for i := strings.LastIndexByte(r.test, '/'); i > 0; i = strings.LastIndexByte(r.test[:i], '/') {
		blamed[r.pkg+" "+r.test[:i]] = true
	}
}

// show writes what a failed test said; of a package that failed without a failed test (it did not compile, panicked or
// took too long), what all its tests said that did not pass.
func (l *testLog) show(log io.Writer, key string) {
	fmt.Fprintf(log, "--- %s\n", strings.TrimSpace(key))
	for _, k := range slices.Sorted(maps.Keys(l.outputs)) {
		if k != key && !(strings.HasSuffix(key, " ") && strings.HasPrefix(k, key)) {
			continue
		}
		for _, line := range l.outputs[k] {
			if !strings.HasPrefix(line, "=== ") {
				io.WriteString(log, line)
			}
		}
	}
}

var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason is what a skipped test gave as its reason.
func reason(output []string) string {
	var parts []string
	for _, line := range output {
		if strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			continue
		}
		if s := strings.TrimSpace(place.ReplaceAllString(line, "")); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

// goTest runs tests and counts them one by one; name is their log's. They are never taken from the cache: some run programs of
// which the cache knows nothing.
func (r *runner) goTest(name string, env []string, args ...string) check {
	return func(ctx context.Context, log io.Writer) result {
		file, err := r.logFile("go-test-" + name)
		if err != nil {
			return failed(log, err)
		}
		defer file.Close()
		lines, input := io.Pipe()
		tests := newTestLog()
		var reading sync.WaitGroup
		reading.Go(func() { tests.read(lines, file, log) })
		err = r.exec(ctx, input, env, "go", append([]string{"test", "-json", "-count=1", "-timeout=10m"}, args...)...)
		input.Close()
		reading.Wait()
		res := tests.result(log)
		if err != nil && len(res.failures) == 0 {
			return failed(log, err)
		}
		return res
	}
}

// read takes in a whole run; lines that are no events (of the go command itself) go to log.
func (l *testLog) read(lines io.Reader, file, log io.Writer) {
	in := bufio.NewReader(lines)
	for {
		line, err := in.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			l.add(e)
			io.WriteString(file, e.Output)
		} else if len(line) > 0 {
			log.Write(line)
		}
		if err != nil {
			return
		}
	}
}
