//go:build unix

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// waitForOutput waits until a child has written a text to its standard output.
func (c *child) waitForOutput(want string) {
	c.t.Helper()
	c.waitFor(func(stdout, _ string) bool { return strings.Contains(stdout, want) })
}

// waitForError waits until a child has written a text to its standard error.
func (c *child) waitForError(want string) {
	c.t.Helper()
	c.waitFor(func(_, stderr string) bool { return strings.Contains(stderr, want) })
}

func (c *child) waitFor(is func(stdout, stderr string) bool) {
	c.t.Helper()
	ctx, pause := stepContext(c.t), time.NewTicker(20*time.Millisecond)
	defer pause.Stop()
	for {
		stdout, stderr := c.outputSoFar()
		if is(strings.Join(stdout, "\n"), stderr) {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("it writes %q, %s", stdout, stderr)
		case <-pause.C:
		}
	}
}

// eventsOf answers DescribeServices with one event of service web for each time.
func eventsOf(at *[]time.Time) func(w http.ResponseWriter, operation string) bool {
	return func(w http.ResponseWriter, operation string) bool {
		if operation != "DescribeServices" {
			return false
		}
		var events []string
		for n, at := range *at {
			events = append(events, fmt.Sprintf(`{"id": "e-%d", "createdAt": %d, "message": "event %d"}`, n, at.Unix(), n))
		}
		_, _ = fmt.Fprintf(w, `{"services": [{"serviceName": "web", "events": [%s]}]}`, strings.Join(events, ","))
		return true
	}
}

// failing lets calls of a fake fail while it is set.
func failing(
	is *bool, otherwise func(w http.ResponseWriter, operation string) bool,
) func(http.ResponseWriter, string) bool {
	return func(w http.ResponseWriter, operation string) bool {
		if *is {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return otherwise(w, operation)
	}
}

// Commands that look until they are interrupted go on after looks that fail, but not if the first does.
func TestWatchingSurvivesLooksThatFail(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, args := range map[string][]string{
		"Events": {"events", "--service", "web", "--follow", "--every", "50ms", "--json"},
		"Status": {"status", "--watch", "--every", "50ms", "--json"},
	} {
		t.Run(name, func(t *testing.T) {
			fails, at := true, []time.Time{began}
			fake := &fakeBerth{now: began, answer: failing(&fails, eventsOf(&at))}
			args := append(args, "--endpoint", fake.serve(t))
			if code, _, errs := berth(args...); code != 1 || strings.Contains(errs, "trying again") {
				t.Errorf("whose first look fails: exit code %d, %s", code, errs)
			}
			fake.change(func() { fails = false })
			c := startChild(t, "berth", args...)
			c.waitForOutput("{")
			fake.change(func() { fails = true })
			c.waitForError("trying again in 50ms")
			fake.change(func() {
				fails = false
				at = append(at, began.Add(time.Second))
				fake.rows = append(fake.rows, fakeService("next", began))
			})
			c.waitForOutput(map[string]string{"Events": "event 1", "Status": `"services":1`}[name])
			if code := c.interrupt(); code != 130 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// An event that came between two looks is printed, although it is older than --since at the second.
func TestFollowedEventsAreCountedFromTheFirstLook(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := []time.Time{began.Add(-time.Hour), began}
	fake := &fakeBerth{now: began, answer: eventsOf(&at)}
	c := startChild(t, "berth", "events", "--service", "web", "--follow", "--since", "1s", "--every", "10ms", "--endpoint",
		fake.serve(t))
	c.waitForOutput("event 1")
	fake.change(func() {
		fake.now = began.Add(time.Minute)
		at = append(at, began.Add(30*time.Second))
	})
	c.waitForOutput("event 2")
	if code := c.interrupt(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if stdout, _ := c.outputSoFar(); strings.Contains(strings.Join(stdout, "\n"), "event 0") {
		t.Errorf("it prints an event from before --since: %q", stdout)
	}
}
