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
	for late := time.Now().Add(childTimeout); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		if stdout, _ := c.outputSoFar(); strings.Contains(strings.Join(stdout, "\n"), want) {
			return
		}
	}
	stdout, stderr := c.outputSoFar()
	c.t.Fatalf("it does not write %q: %q, %s", want, stdout, stderr)
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
